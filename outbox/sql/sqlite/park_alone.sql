-- Lock: SQLite's one write lock, which the transaction holds to its end. The queue of an event that is parked alone from now on.
INSERT INTO leastlock_outbox_parked_queue (queue, shard, topic, key, blocks, state)
SELECT queue, shard, topic, key, 0, 'parked'
FROM leastlock_outbox_parked
WHERE shard = $1 AND id = $2
ON CONFLICT (queue) DO NOTHING
