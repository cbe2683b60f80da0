-- The handler of a record that is known already is about to start.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_suspect
   SET running_epoch = ?1
 WHERE group_id = ?2 AND topic = ?3 AND partition = ?4 AND record_offset = ?5
