-- What operators did, from the newest on, below an id.
-- Lock: none; one plain read.
SELECT id, TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) DIV 1000, actor, action, reason, topic, CAST(`partition` AS SIGNED), record_key, record_offset, records
  FROM leastlock_partition_parked_audit
 WHERE group_id = ? AND id < ?
 ORDER BY id DESC
 LIMIT ?
