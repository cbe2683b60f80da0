-- The first owner of a partition begins.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
INSERT INTO leastlock_partition_tenure (group_id, topic, partition, epoch, ended, suspects)
VALUES (?1, ?2, ?3, ?4, 0, 0)
