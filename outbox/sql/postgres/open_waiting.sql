-- Lock: the rows of the shards that wait, for one statement. Isolation: READ COMMITTED. Nothing is appended to a retired shard any more, so
-- once its snapshot sees all that is in it, and nothing of it is parked, nothing can come after. Both ways of being new are looked up through the index (shard, xid).
UPDATE leastlock_outbox_shard AS s
SET waits = false
WHERE s.waits
  AND NOT EXISTS (
      SELECT
      FROM leastlock_outbox_shard AS r
      WHERE r.retired
        AND (
            EXISTS (SELECT FROM leastlock_outbox_parked AS p WHERE p.shard = r.shard)
            OR EXISTS (
                SELECT FROM leastlock_outbox AS o WHERE o.shard = r.shard AND o.xid >= pg_snapshot_xmax(r.done)
            )
            OR EXISTS (
                SELECT
                FROM pg_snapshot_xip(r.done) AS in_progress (xid)
                JOIN leastlock_outbox AS o ON o.shard = r.shard AND o.xid = in_progress.xid
            )
        )
  )
