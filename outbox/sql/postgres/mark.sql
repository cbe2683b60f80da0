-- Lock: the new rows, and those deleted, for one statement. Isolation: READ COMMITTED. What each shard has published by now; not where
-- that was noted lately. Of the marks that are old enough for their events to be deleted, only the newest is needed.
WITH old AS (
    DELETE FROM leastlock_outbox_mark AS m
    USING (
        SELECT shard, max(noted_at) AS newest
        FROM leastlock_outbox_mark
        WHERE shard = ANY ($1::bigint[]) AND noted_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
        GROUP BY shard
    ) AS enough
    WHERE m.shard = enough.shard AND m.noted_at < enough.newest
)
INSERT INTO leastlock_outbox_mark (shard, done)
SELECT s.shard, s.done
FROM leastlock_outbox_shard AS s
WHERE s.shard = ANY ($1::bigint[])
  AND NOT EXISTS (
      SELECT
      FROM leastlock_outbox_mark AS m
      WHERE m.shard = s.shard AND m.noted_at > clock_timestamp() - $2::bigint * interval '1 millisecond'
  )
