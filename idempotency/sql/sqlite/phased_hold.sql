-- Lock: SQLite's one write lock, for this one statement. The generation is the fence.
UPDATE leastlock_idempotency
SET state = 'held', hold_reason = $1, lease_until = NULL,
    unknown_since = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND owner_token = $5 AND state = 'running'
