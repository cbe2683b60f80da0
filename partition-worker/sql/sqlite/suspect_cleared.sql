-- The record is finished.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_suspect
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND record_offset = ?4
