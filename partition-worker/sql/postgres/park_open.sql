-- A queue that is empty is gone, and its key is free.
-- Lock: the queue's row, which is held already (park_lock.sql), so no record can come into it meanwhile.
DELETE FROM leastlock_partition_parked
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND queue = $4
   AND NOT EXISTS (SELECT 1 FROM leastlock_partition_parked_record AS waiting
                    WHERE waiting.group_id = leastlock_partition_parked.group_id
                      AND waiting.topic = leastlock_partition_parked.topic
                      AND waiting.partition = leastlock_partition_parked.partition
                      AND waiting.queue = leastlock_partition_parked.queue)
