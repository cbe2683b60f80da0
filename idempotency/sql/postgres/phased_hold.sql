-- Lock: the record's row, for this one statement. Right at every isolation level: the generation is the fence.
UPDATE leastlock_idempotency
SET state = 'held', hold_reason = $1, unknown_since = clock_timestamp(), lease_until = NULL
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND owner_token = $5 AND state = 'running'
