-- An operator releases a queue; the owner of its partition does the rest.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
UPDATE leastlock_partition_parked
   SET state = 'releasing', asked_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND queue = ?4
