-- An operator gives up all records of a queue.
-- Lock: the rows that go; the queue's is held already (park_lock.sql), so none can come meanwhile.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND queue = $4
