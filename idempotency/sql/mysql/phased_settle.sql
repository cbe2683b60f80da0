-- Lock: the record's row, which phased_lock.sql has locked in the same transaction; right at every isolation level.
-- The generation refuses the owner before.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = ?, response_headers = ?, response_body = ?,
    generation = generation + 1, owner_token = NULL, lease_until = NULL, hold_reason = NULL, unknown_since = NULL,
    expires_at = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state IN ('running', 'held')
