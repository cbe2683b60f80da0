-- An operator releases a queue; the owner of its partition does the rest.
-- Lock: the queue's row, which is held already (park_lock.sql).
UPDATE leastlock_partition_parked
   SET state = 'releasing', asked_at = clock_timestamp()
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND queue = $4
