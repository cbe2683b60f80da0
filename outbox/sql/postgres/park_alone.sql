-- Lock: none beyond the new row. The queue of an event that is parked alone from now on.
INSERT INTO leastlock_outbox_parked_queue (queue, shard, topic, key, blocks, state)
SELECT queue, shard, topic, key, false, 'parked'
FROM leastlock_outbox_parked
WHERE shard = $1::bigint::smallint AND id = $2
ON CONFLICT (queue) DO NOTHING
