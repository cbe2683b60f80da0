-- Lock: SQLite's one write lock for this one statement. Of the marks that are old enough for their events to be deleted, only the newest
-- is needed.
DELETE FROM leastlock_outbox_mark
WHERE shard = $1
  AND noted_at < (
      SELECT max(noted_at)
      FROM leastlock_outbox_mark
      WHERE shard = $1 AND noted_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2
  )
