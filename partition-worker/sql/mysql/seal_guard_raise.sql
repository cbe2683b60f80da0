-- The second step of a seal: raises the epoch in the guard row.
-- Lock: the guard row, exclusively, which waits for the shared lock of every handler that is still open; newcomers have stopped
-- at the gate, so this wait is as long as the longest open handler, and bounded for this statement alone (MySQL: by the session's
-- innodb_lock_wait_timeout). READ COMMITTED: the gate is read without a lock, and after the wait the row as it is then
-- is compared, so a later seal is never undone; an equal epoch is this owner's own, from a commit whose reply was lost.
-- No row: the gate or the guard has moved on, or there is no guard yet.
/*M!100600 SET STATEMENT max_statement_time = COALESCE(CAST(@leastlock_wait_s AS DECIMAL(20, 3)), 0) FOR */
UPDATE (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch <= gate.epoch
   SET guard.epoch = gate.epoch, guard.owner = ?, guard.sealed_at = UTC_TIMESTAMP(6)
