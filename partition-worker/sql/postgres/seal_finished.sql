-- The finished offsets above next_offset.
-- Lock: none beyond the guard row, which this transaction holds since the statement before. READ COMMITTED: this statement's
-- snapshot is younger than that lock, so it sees whatever the handlers that were waited for have committed.
SELECT done.record_offset
  FROM leastlock_partition_done AS done
 WHERE done.group_id = $1 AND done.topic = $2 AND done.partition = $3::integer
 ORDER BY done.record_offset
