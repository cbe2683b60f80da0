-- Lock: none. Where an event is parked; what is decided by it is looked at again once its queue is locked.
SELECT shard, id, queue
FROM leastlock_outbox_parked
WHERE event_id = ?
ORDER BY shard, id
LIMIT 1
