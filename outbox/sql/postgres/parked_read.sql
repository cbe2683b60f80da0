-- Lock: none; one plain read. One event, whole.
SELECT shard::bigint, id, event_id::text, topic, key, value, headers, partition::bigint,
       (extract(epoch FROM clock_timestamp() - created_at) * 1000)::bigint
FROM leastlock_outbox_parked
WHERE event_id = $1::text::uuid
ORDER BY shard, id
LIMIT 1
