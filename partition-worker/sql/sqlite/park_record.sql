-- Notes where the copy of a parked record stands in the parking topic.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
INSERT INTO leastlock_partition_parked_record
       (group_id, topic, partition, queue, record_offset, parking_partition, parking_offset, attempts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
