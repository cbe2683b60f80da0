-- Lock: SQLite's one write lock, for this one statement. The generation is the fence. The owner stays in the record, so
-- that a completion whose reply was lost can be recognised.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1, response_headers = $2, response_body = $3, lease_until = NULL,
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $4
WHERE scope = $5 AND idempotency_key = $6 AND generation = $7 AND owner_token = $8 AND state = 'running'
