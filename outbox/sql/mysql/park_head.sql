-- Lock: none; one plain read, by the relay that holds the shard. A queue's events in their order.
SELECT id, event_id, topic, `key`, value, headers, `partition`, TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) DIV 1000
FROM leastlock_outbox_parked
WHERE queue = ?
ORDER BY id
LIMIT ?
