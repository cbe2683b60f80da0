-- The finished offsets above next_offset.
-- Lock: none beyond the guard row, which this transaction holds since the statement before. READ COMMITTED: this statement's
-- snapshot is younger than that lock, so it sees whatever the handlers that were waited for have committed.
SELECT record_offset
  FROM leastlock_partition_done
 WHERE group_id = ? AND topic = ? AND `partition` = ?
 ORDER BY record_offset
