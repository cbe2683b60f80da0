-- Lock: the rows of the shards named, in the order of their numbers (as renew.sql does), for one statement. Isolation: READ
-- COMMITTED: after waiting for a claimant the epoch is judged on the row as it then is. A shard that is not answered is
-- another relay's now; or the session that read these positions ($6 is its lock) is not on this server: after a failover transaction
-- ids are given again, and an old position would pass over new events, under the same epoch. The holder is looked up: trying for the lock
-- would succeed in the session that has it, which may be this one where a pooler stands between.
UPDATE leastlock_outbox_shard AS s
SET done = own.done::pg_snapshot, target = nullif(own.target, '')::pg_snapshot, last_id = own.last_id
FROM (
    SELECT o.shard, c.done, c.target, c.last_id
    FROM leastlock_outbox_shard AS o
    JOIN unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[]) AS c (shard, epoch, done, target, last_id)
        ON o.shard = c.shard::smallint AND o.epoch = c.epoch
    WHERE EXISTS (
        SELECT
        FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
          AND classid = ($6::bigint >> 32)::oid AND objid = ($6::bigint & 4294967295)::oid
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    ORDER BY o.shard
    FOR NO KEY UPDATE OF o
) AS own
WHERE s.shard = own.shard
RETURNING s.shard::bigint
