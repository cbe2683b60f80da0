-- The first step of a seal: claims the next epoch at the gate.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial, as every writer's is.
INSERT INTO leastlock_partition_gate (group_id, topic, partition, epoch, owner)
VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT (group_id, topic, partition) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner
RETURNING epoch
