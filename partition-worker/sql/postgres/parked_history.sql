-- What operators did, from the newest on, below an id.
-- Lock: none; one plain read.
SELECT id, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint, actor, action, reason, topic, partition::bigint, record_key, record_offset, records
  FROM leastlock_partition_parked_audit
 WHERE group_id = $1 AND id < $2
 ORDER BY id DESC
 LIMIT $3
