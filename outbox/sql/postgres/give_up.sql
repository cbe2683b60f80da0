-- Lock: the rows of the shards named, in the order of their numbers (as renew.sql does), for one statement. Isolation: READ COMMITTED:
-- the epoch is judged on the row as it is once locked, so a shard that another relay holds by now stays with it.
UPDATE leastlock_outbox_shard AS s
SET owner = NULL, lease_until = NULL
FROM (
    SELECT o.shard
    FROM leastlock_outbox_shard AS o
    JOIN unnest($1::bigint[], $2::bigint[]) AS held (shard, epoch) ON o.shard = held.shard::smallint AND o.epoch = held.epoch
    ORDER BY o.shard
    FOR NO KEY UPDATE OF o
) AS own
WHERE s.shard = own.shard
