-- A page of the finished offsets, from one on: read at once, many of them would not be there before the statement times out.
-- Lock: none beyond the guard row, which this transaction holds since the statement before. READ COMMITTED: this statement's
-- snapshot is younger than that lock, so it sees whatever the handlers that were waited for have committed.
SELECT record_offset
  FROM leastlock_partition_done
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset >= ?
 ORDER BY record_offset
 LIMIT ?
