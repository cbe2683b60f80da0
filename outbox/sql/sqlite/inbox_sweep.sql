-- Lock: SQLite's one write lock for this one statement.
DELETE FROM leastlock_inbox
WHERE (consumer, event_id) IN (
    SELECT consumer, event_id
    FROM leastlock_inbox
    WHERE seen_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1
    ORDER BY seen_at
    LIMIT $2
)
