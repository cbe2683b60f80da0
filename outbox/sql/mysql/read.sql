-- Lock: none; one plain read of its own snapshot. The next events of one shard behind an id; one such part for each shard, joined
-- by UNION ALL. What was committed below the id is found by ids.sql, which has to begin after this has ended.
SELECT shard, id, event_id, topic, `key`, value, headers, `partition`,
       TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) DIV 1000
FROM leastlock_outbox FORCE INDEX (PRIMARY)
WHERE shard = ? AND id > ?
ORDER BY id
LIMIT ?
