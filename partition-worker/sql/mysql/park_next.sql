-- The records of a queue behind an offset, in order.
-- Lock: none; one plain read along the primary key. Whoever acts upon it looks again behind the lock.
SELECT record_offset, CAST(parking_partition AS SIGNED), parking_offset, attempts,
       TIMESTAMPDIFF(MICROSECOND, parked_at, UTC_TIMESTAMP(6)) DIV 1000
  FROM leastlock_partition_parked_record
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND queue = ? AND record_offset > ?
 ORDER BY record_offset
 LIMIT ?
