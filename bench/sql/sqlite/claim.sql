-- Lock: SQLite's one write lock, which BEGIN IMMEDIATE took.
INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
SELECT $1, $2, $3, 'claimed', now_ms, now_ms + 86400000
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE true
ON CONFLICT (scope, idempotency_key) DO NOTHING
