-- Lock: none; one plain read. The audit from the newest on, below an id.
SELECT id, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint, actor, action, reason, topic, key, event_id::text, queues
FROM leastlock_outbox_audit
WHERE id < $1
ORDER BY id DESC
LIMIT $2
