-- The queues of a partition whose records are about to be forgotten.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
SELECT queue
  FROM leastlock_partition_parked
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
 ORDER BY queue
