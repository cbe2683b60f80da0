-- Lock: none; one plain read. The audit from the newest on, below an id.
SELECT id, TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) DIV 1000, actor, action, reason, topic, `key`, event_id, queues
FROM leastlock_outbox_audit
WHERE id < ?
ORDER BY id DESC
LIMIT ?
