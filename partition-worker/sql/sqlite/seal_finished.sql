-- A page of the finished offsets, from one on: read at once, many of them would not be there before the statement times out.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
SELECT record_offset
  FROM leastlock_partition_done
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND record_offset >= ?4
 ORDER BY record_offset
 LIMIT ?5
