-- The handler of a record that is known already is about to start.
-- Lock: the row; the tenure's is held already (tenure_lock.sql), so this is the owner.
UPDATE leastlock_partition_suspect
   SET running_epoch = $1
 WHERE group_id = $2 AND topic = $3 AND partition = $4::integer AND record_offset = $5
