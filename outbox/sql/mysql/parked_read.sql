-- Lock: none; one plain read. One event, whole.
SELECT shard, id, event_id, topic, `key`, value, headers, `partition`, TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) DIV 1000
FROM leastlock_outbox_parked
WHERE event_id = ?
ORDER BY shard, id
LIMIT 1
