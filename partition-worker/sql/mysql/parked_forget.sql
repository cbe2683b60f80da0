-- Parked records that will be handled as records of the partition.
-- Lock: the rows that go; their queues' are held already (parked_hold.sql). READ COMMITTED.
DELETE FROM leastlock_partition_parked_record
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset >= ?
