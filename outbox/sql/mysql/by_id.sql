-- Lock: none; one plain read of its own snapshot. Events by their primary keys, a JSON array of [shard, id]. What takes
-- more bytes than asked for comes without its value and headers.
SELECT event.shard, event.id, event.event_id, event.topic, event.`key`,
       IF(COALESCE(LENGTH(event.`key`), 0) + COALESCE(LENGTH(event.value), 0) + LENGTH(event.headers) <= ?, event.value, NULL),
       IF(COALESCE(LENGTH(event.`key`), 0) + COALESCE(LENGTH(event.value), 0) + LENGTH(event.headers) <= ?, event.headers, NULL),
       event.`partition`,
       TIMESTAMPDIFF(MICROSECOND, event.created_at, UTC_TIMESTAMP(6)) DIV 1000,
       COALESCE(LENGTH(event.`key`), 0) + COALESCE(LENGTH(event.value), 0) + LENGTH(event.headers)
FROM JSON_TABLE(?, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', id BIGINT PATH '$[1]')) AS wanted
STRAIGHT_JOIN leastlock_outbox AS event FORCE INDEX (PRIMARY) ON event.shard = wanted.shard AND event.id = wanted.id
