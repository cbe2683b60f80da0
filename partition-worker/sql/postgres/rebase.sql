-- Sets anew where a group goes on; which topic it is has to be found out anew.
-- Lock: the guard row FOR NO KEY UPDATE until the transaction ends. READ COMMITTED: the epoch, which the seal before this has
-- claimed and no handler has, is compared in the row as it is once locked. No row: another owner has sealed since.
UPDATE leastlock_partition
   SET next_offset = $5, topic_id = NULL
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND epoch = $4
