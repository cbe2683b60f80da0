-- Lock: SQLite's one write lock, for this one statement. A row that is there already is left as it is and read by
-- the next statement. A record that is not finished never expires: only a finished one gets an end.
INSERT INTO leastlock_idempotency
    (scope, idempotency_key, fingerprint, state, owner_token, lease_until, start_by, created_at, expires_at)
SELECT $1, $2, $3, 'running', $4, now_ms + $5, now_ms + $6, now_ms, 9223372036854775807
FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE true
ON CONFLICT (scope, idempotency_key) DO NOTHING
