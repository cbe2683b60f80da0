-- The handler of a record that is known already is about to start.
-- Lock: the row; the tenure's is held already (tenure_lock.sql), so this is the owner.
UPDATE leastlock_partition_suspect
   SET running_epoch = ?
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset = ?
