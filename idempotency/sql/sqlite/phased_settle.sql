-- Lock: SQLite's one write lock, which the transaction has from its BEGIN IMMEDIATE.
-- The generation refuses the owner before.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1, response_headers = $2, response_body = $3,
    generation = generation + 1, owner_token = NULL, lease_until = NULL, hold_reason = NULL, unknown_since = NULL,
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $4
WHERE scope = $5 AND idempotency_key = $6 AND generation = $7 AND state IN ('running', 'held')
