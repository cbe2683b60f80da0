-- Parked records that will be handled as records of the partition.
-- Lock: the rows that go; their queues' are held already (parked_hold.sql). READ COMMITTED.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND record_offset >= $4
