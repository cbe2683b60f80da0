-- The queues of a partition whose records are about to be forgotten.
-- Lock: the queues' rows FOR UPDATE, in the order of their names, to the end of the transaction; the guard row is held before them, as by
-- an owner. An operator holds one of them and nothing else. READ COMMITTED: each row is read as it is once locked.
SELECT queue
  FROM leastlock_partition_parked
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer
 ORDER BY queue
   FOR UPDATE
