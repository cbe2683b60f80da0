-- Lock: SQLite's one write lock for this one statement. What the shard has published by now; not where that was noted lately.
INSERT INTO leastlock_outbox_mark (shard, last_id)
SELECT shard, last_id
FROM leastlock_outbox_shard
WHERE shard = $1
  AND NOT EXISTS (
      SELECT 1
      FROM leastlock_outbox_mark
      WHERE shard = $1 AND noted_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - $2
  )
