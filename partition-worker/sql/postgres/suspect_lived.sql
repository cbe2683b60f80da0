-- These records ran, and the process lived.
-- Lock: the rows; the tenure's is held already (tenure_lock.sql).
UPDATE leastlock_partition_suspect
   SET running_epoch = NULL
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND running_epoch IS NOT NULL
