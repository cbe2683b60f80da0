-- Lock: SQLite's one write lock, which the refused claim took in the same transaction.
UPDATE leastlock_idempotency
SET fingerprint = $3, state = 'claimed', generation = generation + 1, lease_until = NULL, recovery_point = NULL,
    step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
    created_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $4
WHERE scope = $1 AND idempotency_key = $2
  AND expires_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING generation
