-- Sets anew where a group goes on; which topic it is has to be found out anew. No row: another owner has sealed since.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition
   SET next_offset = ?5, topic_id = NULL
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4
