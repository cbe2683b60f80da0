-- Lock: the record's row, for this one statement. Right at every isolation level. As phased_save.sql, and
-- refused once the request has expired by the database's clock.
UPDATE leastlock_idempotency
SET step_data = ?, recovery_point = ?, step_seq = step_seq + 1, lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
  AND step_seq = ?
  AND (start_by IS NULL OR start_by > UTC_TIMESTAMP(6))
