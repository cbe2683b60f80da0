-- Parked records that will be handled as records of the partition.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND record_offset >= ?4
