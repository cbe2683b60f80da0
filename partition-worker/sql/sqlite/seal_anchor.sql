-- Fixes where the first owner of a partition starts; later owners find it fixed.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition
   SET next_offset = ?5
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4 AND next_offset IS NULL
