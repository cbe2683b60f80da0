-- The process died while it handled these records.
-- Lock: the rows; the tenure's is held already (tenure_lock.sql).
UPDATE leastlock_partition_suspect
   SET deaths = deaths + 1, running_epoch = NULL
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND running_epoch IS NOT NULL
