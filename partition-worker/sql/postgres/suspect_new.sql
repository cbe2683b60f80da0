-- The handler of a record is about to start for the first time since a process died.
-- Lock: the new row; the tenure's is held already (tenure_lock.sql), so this is the owner, and nobody else inserts.
INSERT INTO leastlock_partition_suspect (group_id, topic, partition, record_offset, deaths, running_epoch)
VALUES ($1, $2, $3::integer, $4, 0, $5)
