-- Lock: ACCESS SHARE on the log, then the rows of the shards held in the order of their numbers (as note.sql has them), for one
-- statement; brief_wait.sql bounds both. Isolation: READ COMMITTED. Notes an id that has been drawn by now, for `rebase`: what has a
-- higher one may have been appended after a restore. Apart from the renewal, which must not wait for whoever locks the log.
UPDATE leastlock_outbox_shard AS s
SET seen_id = greatest(s.seen_id, (SELECT max(id) FROM leastlock_outbox AS o WHERE o.shard = s.shard))
FROM (
    SELECT o.shard
    FROM leastlock_outbox_shard AS o
    JOIN unnest($1::bigint[], $2::bigint[]) AS held (shard, epoch) ON o.shard = held.shard::smallint AND o.epoch = held.epoch
    ORDER BY o.shard
    FOR NO KEY UPDATE OF o
) AS own
WHERE s.shard = own.shard
