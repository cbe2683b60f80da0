-- Lock: SQLite's one write lock for this one statement.
DELETE FROM leastlock_idempotency
WHERE (scope, idempotency_key) IN (
    SELECT scope, idempotency_key
    FROM leastlock_idempotency
    WHERE expires_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    ORDER BY expires_at
    LIMIT $1
)
