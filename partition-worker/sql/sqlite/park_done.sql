-- A parked record leaves its queue.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND queue = ?4 AND record_offset = ?5
