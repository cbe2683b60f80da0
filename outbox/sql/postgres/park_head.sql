-- Lock: none; one plain read, by the relay that holds the shard. A queue's events in their order.
SELECT id, event_id::text, topic, key, value, headers, partition::bigint,
       (extract(epoch FROM clock_timestamp() - created_at) * 1000)::bigint
FROM leastlock_outbox_parked
WHERE queue = $1
ORDER BY id
LIMIT $2
