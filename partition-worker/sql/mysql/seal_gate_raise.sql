-- The first step of a seal: claims the next epoch at the gate, where there is one.
-- Lock: the gate row, exclusively, for this short transaction; nobody share-locks it, so it is had at once. READ COMMITTED, so
-- that where there is no row no gap is locked.
UPDATE leastlock_partition_gate
   SET epoch = epoch + 1, owner = ?
 WHERE group_id = ? AND topic = ? AND `partition` = ?
