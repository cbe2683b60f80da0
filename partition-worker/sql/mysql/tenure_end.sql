-- An owner gives a partition up in an orderly way: no process has died.
-- Lock: the row, for this statement. READ COMMITTED: the epoch is compared in the row as it is once locked.
UPDATE leastlock_partition_tenure
   SET ended = 1, suspects = ?
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
