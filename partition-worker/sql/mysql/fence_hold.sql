-- The fence for records whose offsets are finished: those that leave a released queue. It marks nothing. The last parameter, an idle
-- time-out, was set by begin.sql.
-- Lock: the guard row, shared, until the transaction ends, so that a seal waits for it. As in fence_enter.sql, the gate is read first and
-- without a lock, in a derived table with a LIMIT. READ COMMITTED: the locking scan compares the epoch in the row as it is once locked.
SELECT guard.epoch
  FROM (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  STRAIGHT_JOIN (SELECT ? AS idle_ms) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch = gate.epoch
 WHERE asked.idle_ms >= 0
  LOCK IN SHARE MODE
