-- The second step of a seal: raises the epoch in the guard row. No row: the gate or the guard has moved on.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE, which has waited for every open handler. Isolation: serial.
INSERT INTO leastlock_partition (group_id, topic, partition, epoch, owner, sealed_at)
SELECT gate.group_id, gate.topic, gate.partition, gate.epoch, ?5, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
  FROM leastlock_partition_gate AS gate
 WHERE gate.group_id = ?1 AND gate.topic = ?2 AND gate.partition = ?3 AND gate.epoch = ?4
ON CONFLICT (group_id, topic, partition) DO UPDATE
   SET epoch = excluded.epoch, owner = excluded.owner, sealed_at = excluded.sealed_at
 WHERE leastlock_partition.epoch <= excluded.epoch
RETURNING next_offset, topic_id
