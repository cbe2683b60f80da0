-- The second step of a seal: raises the epoch in the guard row.
-- Lock: the guard row FOR NO KEY UPDATE, which waits for the FOR SHARE of every handler that is still open; newcomers have
-- stopped at the gate, so this wait is as long as the longest open handler. READ COMMITTED: after the wait the newest version
-- of the row is compared, so a later seal is never undone; an equal epoch is
-- this owner's own, from a commit whose reply was lost. No row: the gate or the guard has moved on.
INSERT INTO leastlock_partition AS guard (group_id, topic, partition, epoch, owner, sealed_at)
SELECT gate.group_id, gate.topic, gate.partition, gate.epoch, $5, clock_timestamp()
  FROM leastlock_partition_gate AS gate
 WHERE gate.group_id = $1 AND gate.topic = $2 AND gate.partition = $3::integer AND gate.epoch = $4
ON CONFLICT (group_id, topic, partition) DO UPDATE
   SET epoch = excluded.epoch, owner = excluded.owner, sealed_at = clock_timestamp()
 WHERE guard.epoch <= excluded.epoch
RETURNING guard.next_offset, guard.topic_id
