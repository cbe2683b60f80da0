-- An operator gives up all records of a queue.
-- Lock: the rows that go; the queue's is held already (park_lock.sql), so none can come meanwhile.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ?
