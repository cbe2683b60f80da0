-- These records ran, and the process lived.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_suspect
   SET running_epoch = NULL
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND running_epoch IS NOT NULL
