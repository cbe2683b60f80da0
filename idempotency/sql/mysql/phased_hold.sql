-- Lock: the record's row, for this one statement. Right at every isolation level. The generation is the
-- fence.
UPDATE leastlock_idempotency
SET state = 'held', hold_reason = ?, unknown_since = UTC_TIMESTAMP(6), lease_until = NULL
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
