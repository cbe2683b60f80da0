-- What of a partition is parked: for its owner, who keeps it in mind from the seal on.
-- Lock: none; one plain read. READ COMMITTED: only the owner of the partition adds a queue, and it is the owner that reads.
SELECT queue, blocks, parking_topic
  FROM leastlock_partition_parked
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
 ORDER BY queue
 LIMIT ?4
