-- The handler of a record is about to start for the first time since a process died.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
INSERT INTO leastlock_partition_suspect (group_id, topic, partition, record_offset, deaths, running_epoch)
VALUES (?1, ?2, ?3, ?4, 0, ?5)
