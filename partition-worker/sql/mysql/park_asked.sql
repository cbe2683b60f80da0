-- The queues of a partition that an operator has released.
-- Lock: none; one plain read. READ COMMITTED: what is released right after it is found by the next look.
SELECT queue, record_key, parking_topic
  FROM leastlock_partition_parked
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND state = 'releasing'
 ORDER BY queue
