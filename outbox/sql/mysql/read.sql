-- Lock: none; one plain read of its own snapshot. The next events of one shard behind an id; one such part for each shard, joined
-- by UNION ALL. What was committed below the id is found by ids.sql, which has to begin after this has ended. What takes more bytes than
-- asked for comes without its value and headers.
SELECT shard, id, event_id, topic, `key`,
       IF(COALESCE(LENGTH(`key`), 0) + COALESCE(LENGTH(value), 0) + LENGTH(headers) <= ?, value, NULL),
       IF(COALESCE(LENGTH(`key`), 0) + COALESCE(LENGTH(value), 0) + LENGTH(headers) <= ?, headers, NULL),
       `partition`,
       TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) DIV 1000,
       COALESCE(LENGTH(`key`), 0) + COALESCE(LENGTH(value), 0) + LENGTH(headers)
FROM leastlock_outbox FORCE INDEX (PRIMARY)
WHERE shard = ? AND id > ?
ORDER BY id
LIMIT ?
