-- The first record of a released queue has failed again: how often it was tried.
-- Lock: the record's row; the queue's is held already (park_lock.sql).
UPDATE leastlock_partition_parked_record
   SET attempts = attempts + $1
 WHERE group_id = $2 AND topic = $3 AND partition = $4::integer AND queue = $5 AND record_offset = $6
