-- The first record of a released queue has failed again: the queue is parked as before.
-- Lock: the queue's row, which is held already (park_lock.sql).
UPDATE leastlock_partition_parked
   SET state = 'parked', asked_at = NULL, cause = $1, reason = $2
 WHERE group_id = $3 AND topic = $4 AND partition = $5::integer AND queue = $6
