-- The next owner begins.
-- Lock: the row, which is held already (tenure_lock.sql).
UPDATE leastlock_partition_tenure
   SET epoch = $1, ended = false, suspects = $2
 WHERE group_id = $3 AND topic = $4 AND partition = $5::integer
