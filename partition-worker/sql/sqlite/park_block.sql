-- The first record of a released queue has failed again: the queue is parked as before.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_parked
   SET state = 'parked', asked_at = NULL, cause = ?1, reason = ?2
 WHERE group_id = ?3 AND topic = ?4 AND partition = ?5 AND queue = ?6
