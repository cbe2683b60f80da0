-- Who owned a partition last, and how that ended.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
SELECT epoch, ended, suspects
  FROM leastlock_partition_tenure
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
