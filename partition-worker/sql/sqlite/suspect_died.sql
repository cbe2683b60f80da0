-- The process died while it handled these records.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_suspect
   SET deaths = deaths + 1, running_epoch = NULL
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND running_epoch IS NOT NULL
