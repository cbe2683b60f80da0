-- Notes where the copy of a parked record stands in the parking topic.
-- Lock: the new row, beside the queue's, which is held already (park_lock.sql, or park_queue.sql in the same transaction).
INSERT INTO leastlock_partition_parked_record
       (group_id, topic, `partition`, queue, record_offset, parking_partition, parking_offset, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
