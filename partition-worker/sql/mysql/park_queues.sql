-- What of a partition is parked: for its owner, who keeps it in mind from the seal on.
-- Lock: none; one plain read. READ COMMITTED: only the owner of the partition adds a queue, and it is the owner that reads.
SELECT queue, blocks + 0, parking_topic
  FROM leastlock_partition_parked
 WHERE group_id = ? AND topic = ? AND `partition` = ?
 ORDER BY queue
 LIMIT ?
