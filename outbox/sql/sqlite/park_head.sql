-- Lock: none; one plain read, by the relay that holds the shard. A queue's events in their order.
SELECT id, event_id, topic, key, value, headers, partition, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - created_at
FROM leastlock_outbox_parked
WHERE queue = $1
ORDER BY id
LIMIT $2
