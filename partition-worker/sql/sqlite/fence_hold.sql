-- The fence for records whose offsets are finished: those that leave a released queue. It marks nothing. The last parameter, an idle
-- time-out, has no counterpart here.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE, so that no seal runs beside it. Isolation: serial.
SELECT guard.epoch
  FROM leastlock_partition AS guard
  JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition)
 WHERE guard.group_id = ?1 AND guard.topic = ?2 AND guard.partition = ?3
   AND gate.epoch = ?4 AND guard.epoch = ?4 AND ?5 >= 0
