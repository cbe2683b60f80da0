-- The fence of many records: the first statement of a batch's transaction. It has let the batch in if it inserts every offset.
-- The last parameter, an idle time-out, has no counterpart here.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE, so that no seal and no fold runs beside a handler.
-- Isolation: serial, so that gate, guard and finished offsets are seen as they are.
INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset)
SELECT guard.group_id, guard.topic, guard.partition, asked.value
  FROM leastlock_partition AS guard
  JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition)
  JOIN json_each('[' || ?5 || ']') AS asked
 WHERE guard.group_id = ?1 AND guard.topic = ?2 AND guard.partition = ?3
   AND gate.epoch = ?4 AND guard.epoch = ?4 AND guard.next_offset <= asked.value AND ?6 >= 0
ON CONFLICT (group_id, topic, partition, record_offset) DO NOTHING
