-- Notes which topic of that name it is, where that is not known yet.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition
   SET topic_id = ?5
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4 AND topic_id IS NULL
