-- Holds a queue of parked records, if it is there.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
SELECT state, record_key, parking_topic, blocks
  FROM leastlock_partition_parked
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND queue = ?4
