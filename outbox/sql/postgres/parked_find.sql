-- Lock: none. Where an event is parked; what is decided by it is looked at again once its queue is locked.
SELECT shard::bigint, id, queue
FROM leastlock_outbox_parked
WHERE event_id = $1::text::uuid
ORDER BY shard, id
LIMIT 1
