-- Why the fence let nobody in: is the epoch still the newest, and is the record finished? No row: it is not the newest.
-- Lock: none. READ COMMITTED: a snapshot of its own, younger than whatever the fence has waited for.
SELECT 1,
       guard.next_offset > asked.record_offset
       OR EXISTS (SELECT 1 FROM leastlock_partition_done AS done
                   WHERE done.group_id = guard.group_id AND done.topic = guard.topic
                     AND done.`partition` = guard.`partition` AND done.record_offset = asked.record_offset)
  FROM (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  STRAIGHT_JOIN (SELECT ? AS record_offset) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch = gate.epoch
