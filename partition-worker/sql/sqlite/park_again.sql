-- The first record of a released queue has failed again: how often it was tried.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_parked_record
   SET attempts = attempts + ?1
 WHERE group_id = ?2 AND topic = ?3 AND partition = ?4 AND queue = ?5 AND record_offset = ?6
