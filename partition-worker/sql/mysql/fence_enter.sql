-- The fence: the first statement of a handler's transaction. The last parameter, an idle time-out, was set by begin.sql.
-- Lock: the guard row, shared, until the transaction ends, so that a seal and a fold wait for it; then the new row of the offset.
-- The gate is read first, and without a lock, because a derived table with a LIMIT is computed by itself and LOCK IN SHARE
-- MODE does not reach into it: a handler of an earlier epoch stops there and does not queue behind a waiting seal.
-- READ COMMITTED: only then is a plain read within an INSERT one that locks nothing; the locking scan compares epoch and
-- next_offset in the row as it is once locked. 1062: the record is finished; it waits for an open transaction of the same one.
-- All parameters but the gate's stand in one derived row, so that their order is the same on every engine.
INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset)
SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset
  FROM (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  STRAIGHT_JOIN (SELECT ? AS record_offset, ? AS idle_ms) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch = gate.epoch
 WHERE guard.next_offset <= asked.record_offset AND asked.idle_ms >= 0
  LOCK IN SHARE MODE
