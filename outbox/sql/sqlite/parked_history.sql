-- Lock: none; one plain read. The audit from the newest on, below an id.
SELECT id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - at, actor, action, reason, topic, key, event_id, queues
FROM leastlock_outbox_audit
WHERE id < $1
ORDER BY id DESC
LIMIT $2
