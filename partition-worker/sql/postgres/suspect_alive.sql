-- The handler has ended without the process, whatever became of the record.
-- Lock: the row, for this statement. READ COMMITTED: the epoch is compared in the row as it is once locked.
UPDATE leastlock_partition_suspect
   SET running_epoch = NULL
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND record_offset = $4 AND running_epoch = $5
