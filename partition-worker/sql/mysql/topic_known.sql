-- Which topic of that name it is, if the epoch is still the owner's. Lock: none. READ COMMITTED.
SELECT topic_id
  FROM leastlock_partition
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
