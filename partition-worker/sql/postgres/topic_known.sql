-- Which topic of that name it is, if the epoch is still the owner's. Lock: none. READ COMMITTED.
SELECT topic_id
  FROM leastlock_partition
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND epoch = $4
