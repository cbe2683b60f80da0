-- Lock: the record's row, which phased_lock.sql has locked in the same transaction; right at every isolation level.
-- The generation refuses the owner before.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1::bigint::integer, response_headers = $2, response_body = $3,
    generation = generation + 1, owner_token = NULL, lease_until = NULL, hold_reason = NULL, unknown_since = NULL,
    expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
WHERE scope = $5 AND idempotency_key = $6 AND generation = $7 AND state IN ('running', 'held')
