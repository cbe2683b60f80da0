-- The first step of a seal: claims the next epoch at the gate.
-- Lock: the gate row, for this one statement; nobody share-locks it, so it is had at once. READ COMMITTED: a concurrent claim
-- is waited for and counted on from, so that no two claims ever get one epoch.
INSERT INTO leastlock_partition_gate AS gate (group_id, topic, partition, epoch, owner)
VALUES ($1, $2, $3::integer, 1, $4)
ON CONFLICT (group_id, topic, partition) DO UPDATE SET epoch = gate.epoch + 1, owner = excluded.owner
RETURNING gate.epoch
