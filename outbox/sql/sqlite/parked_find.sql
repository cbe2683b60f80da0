-- Lock: none beyond the transaction's. Where an event is parked.
SELECT shard, id, queue
FROM leastlock_outbox_parked
WHERE event_id = $1
ORDER BY shard, id
LIMIT 1
