-- What operators did, from the newest on, below an id.
-- Lock: none; one plain read.
SELECT id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - at, actor, action, reason, topic, partition, record_key, record_offset, records
  FROM leastlock_partition_parked_audit
 WHERE group_id = ?1 AND id < ?2
 ORDER BY id DESC
 LIMIT ?3
