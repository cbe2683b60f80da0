-- Lock: SQLite's one write lock for this one statement.
DELETE FROM leastlock_idempotency_audit
WHERE id IN (
    SELECT id
    FROM leastlock_idempotency_audit
    WHERE resolved_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1
    ORDER BY resolved_at
    LIMIT $2
)
