-- Lock: the rows of the shards held, in the order of their numbers (as note.sql does, so that the two never deadlock), for
-- one statement; and no other table: whoever locks the log must not end leases. Isolation: READ COMMITTED: the epoch is judged on the
-- row as it is once locked. Only what the relay knows that it holds is renewed: a shard of its name that it lost sight of must expire.
-- Nor is a lease that is over: another relay may be about to take it.
UPDATE leastlock_outbox_shard AS s
SET lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond'
FROM (
    SELECT o.shard
    FROM leastlock_outbox_shard AS o
    JOIN unnest($1::bigint[], $2::bigint[]) AS held (shard, epoch) ON o.shard = held.shard::smallint AND o.epoch = held.epoch
    WHERE o.lease_until > clock_timestamp()
    ORDER BY o.shard
    FOR NO KEY UPDATE OF o
) AS own
WHERE s.shard = own.shard
RETURNING s.shard::bigint
