-- Holds a queue of parked records, if it is there.
-- Lock: the queue's row FOR UPDATE, to the end of the transaction: whoever adds or removes records of a queue, owner or operator, holds
-- it. An owner holds the guard row before it, and an operator holds nothing else, so the two never wait for each other in a circle.
-- READ COMMITTED: the row is read as it is once locked, and the next statement sees the records as they are then.
SELECT state, record_key, parking_topic, blocks + 0
  FROM leastlock_partition_parked
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ?
   FOR UPDATE
