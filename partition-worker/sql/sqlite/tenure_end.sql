-- An owner gives a partition up in an orderly way: no process has died.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_tenure
   SET ended = 1, suspects = ?1
 WHERE group_id = ?2 AND topic = ?3 AND partition = ?4 AND epoch = ?5
