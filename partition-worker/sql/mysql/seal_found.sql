-- Where the partition stands. Lock: none beyond the guard row, which this transaction holds since the statement before.
SELECT next_offset, topic_id
  FROM leastlock_partition
 WHERE group_id = ? AND topic = ? AND `partition` = ?
