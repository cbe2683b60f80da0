-- Lock: the shards' rows, which are locked already, and the new ones. The new shards ($1) follow the last number, and wait until the old ones
-- have been published.
WITH old AS (
    UPDATE leastlock_outbox_shard SET retired = true
)
INSERT INTO leastlock_outbox_shard (shard, generation, waits, seen_id)
SELECT last.shard + number, last.generation + 1, true, 0
FROM (SELECT max(shard) AS shard, max(generation) AS generation FROM leastlock_outbox_shard) AS last
CROSS JOIN generate_series(1, $1::bigint) AS number
