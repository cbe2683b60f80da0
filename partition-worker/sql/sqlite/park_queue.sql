-- Parks a key, or one record alone.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
INSERT INTO leastlock_partition_parked
       (group_id, topic, partition, queue, record_key, blocks, parking_topic, cause, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
