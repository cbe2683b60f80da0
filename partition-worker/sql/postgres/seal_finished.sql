-- A page of the finished offsets, from one on: read at once, many of them would not be there before the statement times out.
-- Lock: none beyond the guard row, which this transaction holds since the statement before. READ COMMITTED: this statement's
-- snapshot is younger than that lock, so it sees whatever the handlers that were waited for have committed.
SELECT done.record_offset
  FROM leastlock_partition_done AS done
 WHERE done.group_id = $1 AND done.topic = $2 AND done.partition = $3::integer AND done.record_offset >= $4
 ORDER BY done.record_offset
 LIMIT $5
