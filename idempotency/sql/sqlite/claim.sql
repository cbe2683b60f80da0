-- Lock: SQLite's one write lock, taken here at the latest (BEGIN IMMEDIATE takes it earlier), so that the read which
-- follows a refusal sees what refused it.
INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
SELECT $1, $2, $3, 'claimed', now_ms, now_ms + $4
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE true
ON CONFLICT (scope, idempotency_key) DO NOTHING
RETURNING generation
