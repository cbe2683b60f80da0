-- A parked record leaves its queue.
-- Lock: the row that goes; the queue's is held already (park_lock.sql). No row: it left before.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND queue = $4 AND record_offset = $5
