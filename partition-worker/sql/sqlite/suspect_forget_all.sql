-- Suspects are no matter any more: other records come next.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_suspect
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
