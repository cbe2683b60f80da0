-- Notes which topic of that name it is, where that is not known yet.
-- Lock: the guard row FOR NO KEY UPDATE; no handler of this epoch is open yet. READ COMMITTED: the epoch is compared in the
-- row as it is once locked.
UPDATE leastlock_partition
   SET topic_id = $5
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND epoch = $4 AND topic_id IS NULL
