-- The queues of a partition that are empty, and whose keys are free.
-- Lock: the rows that go, which are held already (parked_hold.sql), so no record can come into them meanwhile. READ COMMITTED.
DELETE FROM leastlock_partition_parked
 WHERE group_id = ? AND topic = ? AND `partition` = ?
   AND NOT EXISTS (SELECT 1 FROM leastlock_partition_parked_record AS waiting
                    WHERE waiting.group_id = leastlock_partition_parked.group_id
                      AND waiting.topic = leastlock_partition_parked.topic
                      AND waiting.`partition` = leastlock_partition_parked.`partition`
                      AND waiting.queue = leastlock_partition_parked.queue)
