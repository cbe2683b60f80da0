-- Lock: the record's row, for this one statement. Right at every isolation level: as phased_save.sql, and refused once the
-- request has expired by the database's clock.
UPDATE leastlock_idempotency
SET step_data = $1, recovery_point = $2, step_seq = step_seq + 1,
    lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond'
WHERE scope = $4 AND idempotency_key = $5 AND generation = $6 AND owner_token = $7 AND state = 'running'
  AND step_seq = $8::bigint
  AND (start_by IS NULL OR start_by > clock_timestamp())
