-- Lock: the rows of the shards that wait, for one statement. Isolation: READ COMMITTED. Nothing is appended to a retired shard any more, so
-- once its snapshot sees all that is in it, and nothing of it is parked that later events of its key have to follow, nothing can come after.
-- What is parked alone blocks nothing, and is sent from its old shard. Both ways of being new are looked up through the index (shard, xid).
UPDATE leastlock_outbox_shard AS s
SET waits = false
WHERE s.waits
  AND NOT EXISTS (
      SELECT
      FROM leastlock_outbox_shard AS r
      WHERE r.retired
        AND (
            EXISTS (
                SELECT
                FROM leastlock_outbox_parked_queue AS q
                JOIN leastlock_outbox_parked AS p USING (queue)
                WHERE q.shard = r.shard AND q.blocks
            )
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
