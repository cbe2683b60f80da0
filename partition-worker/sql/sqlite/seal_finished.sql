-- The finished offsets above next_offset.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
SELECT record_offset
  FROM leastlock_partition_done
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
 ORDER BY record_offset
