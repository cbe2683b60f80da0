-- Lock: the rows of the shards named, for one statement. Isolation: READ COMMITTED: after waiting for a claimant the epoch
-- is judged on the row as it then is. A shard that is not answered is another relay's now.
UPDATE leastlock_outbox_shard AS s
SET done = c.done::pg_snapshot, target = nullif(c.target, '')::pg_snapshot, last_id = c.last_id
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[]) AS c (shard, epoch, done, target, last_id)
WHERE s.shard = c.shard::smallint AND s.epoch = c.epoch
RETURNING s.shard::bigint
