-- Who owned a partition last, and how that ended.
-- Lock: the row FOR UPDATE, to the end of the transaction, so that an owner that was taken over notes nothing any more.
-- READ COMMITTED: the row is read as it is once locked.
SELECT epoch, ended::integer::bigint, suspects
  FROM leastlock_partition_tenure
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer
   FOR UPDATE
