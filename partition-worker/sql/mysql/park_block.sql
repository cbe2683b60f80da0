-- The first record of a released queue has failed again: the queue is parked as before.
-- Lock: the queue's row, which is held already (park_lock.sql).
UPDATE leastlock_partition_parked
   SET state = 'parked', asked_at = NULL, cause = ?, reason = ?
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ?
