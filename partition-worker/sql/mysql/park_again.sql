-- The first record of a released queue has failed again: how often it was tried.
-- Lock: the record's row; the queue's is held already (park_lock.sql).
UPDATE leastlock_partition_parked_record
   SET attempts = attempts + ?
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ? AND record_offset = ?
