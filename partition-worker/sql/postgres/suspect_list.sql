-- The records that deaths are held against.
-- Lock: none beyond the tenure's row, which is held already (tenure_lock.sql).
SELECT record_offset, deaths
  FROM leastlock_partition_suspect
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer
 ORDER BY record_offset
