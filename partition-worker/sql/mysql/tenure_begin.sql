-- The next owner begins.
-- Lock: the row, which is held already (tenure_lock.sql).
UPDATE leastlock_partition_tenure
   SET epoch = ?, ended = 0, suspects = ?
 WHERE group_id = ? AND topic = ? AND `partition` = ?
