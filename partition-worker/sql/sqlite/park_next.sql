-- The records of a queue behind an offset, in order.
-- Lock: none; one plain read along the primary key. Whoever acts upon it looks again behind the lock.
SELECT record_offset, parking_partition, parking_offset, attempts,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - parked_at
  FROM leastlock_partition_parked_record
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND queue = ?4 AND record_offset > ?5
 ORDER BY record_offset
 LIMIT ?6
