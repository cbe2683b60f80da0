-- Takes the one write lock. Rowids rise with time, so the scan ends at the first rows that are young enough, or at the limit.
DELETE FROM leastlock_occ_order
WHERE rowid IN (
    SELECT rowid
    FROM leastlock_occ_order
    WHERE created_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $1
    ORDER BY rowid
    LIMIT $2
)
