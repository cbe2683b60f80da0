-- A parked record leaves its queue.
-- Lock: the row that goes; the queue's is held already (park_lock.sql). No row: it left before.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ? AND record_offset = ?
