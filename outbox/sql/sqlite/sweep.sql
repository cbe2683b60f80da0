-- Lock: SQLite's one write lock for this one statement. Ids follow commit order, so what a mark of long enough ago has behind it is
-- the low end of the primary key.
DELETE FROM leastlock_outbox
WHERE id IN (
    SELECT id
    FROM leastlock_outbox
    WHERE id <= (
        SELECT max(last_id)
        FROM leastlock_outbox_mark
        WHERE shard = $1 AND noted_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2
    )
    ORDER BY id
    LIMIT $3
)
