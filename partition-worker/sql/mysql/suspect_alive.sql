-- The handler has ended without the process, whatever became of the record.
-- Lock: the row, for this statement. READ COMMITTED: the epoch is compared in the row as it is once locked.
UPDATE leastlock_partition_suspect
   SET running_epoch = NULL
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset = ? AND running_epoch = ?
