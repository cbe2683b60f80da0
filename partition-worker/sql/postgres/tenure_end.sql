-- An owner gives a partition up in an orderly way: no process has died.
-- Lock: the row, for this statement. READ COMMITTED: the epoch is compared in the row as it is once locked.
UPDATE leastlock_partition_tenure
   SET ended = true, suspects = $1
 WHERE group_id = $2 AND topic = $3 AND partition = $4::integer AND epoch = $5
