-- Lock: none; one plain read. One event, whole.
SELECT shard, id, event_id, topic, key, value, headers, partition, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - created_at
FROM leastlock_outbox_parked
WHERE event_id = $1
ORDER BY shard, id
LIMIT 1
