-- Lock: the record's row, for this one statement. Right at every isolation level. The generation is the
-- fence. The owner stays in the record, so that a completion whose reply was lost can be recognised.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = ?, response_headers = ?, response_body = ?, lease_until = NULL,
    expires_at = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
