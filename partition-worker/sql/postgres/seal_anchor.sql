-- Fixes where the first owner of a partition starts; later owners find it fixed.
-- Lock: the guard row FOR NO KEY UPDATE; no handler of this epoch is open yet. READ COMMITTED: the epoch is compared in the
-- row as it is once locked.
UPDATE leastlock_partition
   SET next_offset = $5
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND epoch = $4 AND next_offset IS NULL
