-- Who owned a partition last is no matter any more: other records come next.
-- Lock: the row that goes; the guard row is held before it. READ COMMITTED.
DELETE FROM leastlock_partition_tenure
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer
