-- The next owner begins.
-- Lock: the row, which is held already (tenure_lock.sql).
UPDATE leastlock_partition_tenure
   SET epoch = $1, ended = false, suspicious = ($2::bigint = 1)
 WHERE group_id = $3 AND topic = $4 AND partition = $5::integer
