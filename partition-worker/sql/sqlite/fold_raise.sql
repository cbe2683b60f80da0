-- The first step of a fold: everything below ?5 is finished. The last parameter, a lock time-out, has no counterpart here.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition
   SET next_offset = ?5
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4 AND next_offset < ?5 AND ?6 >= 0
