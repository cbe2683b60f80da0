-- The next owner begins.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_tenure
   SET epoch = ?1, ended = 0, suspects = ?2
 WHERE group_id = ?3 AND topic = ?4 AND partition = ?5
