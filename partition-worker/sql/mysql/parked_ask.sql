-- An operator releases a queue; the owner of its partition does the rest.
-- Lock: the queue's row, which is held already (park_lock.sql).
UPDATE leastlock_partition_parked
   SET state = 'releasing', asked_at = UTC_TIMESTAMP(6)
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ?
