-- The queues of a partition that are empty, and whose keys are free.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_parked
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3
   AND NOT EXISTS (SELECT 1 FROM leastlock_partition_parked_record AS waiting
                    WHERE waiting.group_id = leastlock_partition_parked.group_id
                      AND waiting.topic = leastlock_partition_parked.topic
                      AND waiting.partition = leastlock_partition_parked.partition
                      AND waiting.queue = leastlock_partition_parked.queue)
