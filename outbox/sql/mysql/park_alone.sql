-- Lock: none beyond the new row. The queue of an event that is parked alone from now on.
INSERT INTO leastlock_outbox_parked_queue (queue, shard, topic, `key`, blocks, state)
SELECT queue, shard, topic, `key`, 0, 'parked'
FROM leastlock_outbox_parked
WHERE shard = ? AND id = ?
ON DUPLICATE KEY UPDATE queue = leastlock_outbox_parked_queue.queue
