-- Takes the file's one write lock for this one statement, which is its own transaction; a batch of the oldest.
DELETE FROM leastlock_once
WHERE (job, period) IN (
    SELECT job, period FROM leastlock_once
    WHERE completed_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?1
    ORDER BY completed_at
    LIMIT ?2)
