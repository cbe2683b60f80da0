-- The first step of a fold: everything below the watermark is finished. The last parameter, a lock time-out, was set by fold_bound.sql.
-- Lock: the guard row, exclusively, until the transaction ends, so a handler of a folded record that starts now waits and then
-- finds next_offset above its own. The wait is bounded for this statement alone (MySQL: by the session's
-- innodb_lock_wait_timeout); the owner has paused its handlers, so it is not expected to wait at all. READ COMMITTED: only the
-- owner of the epoch in the locked row changes anything.
/*M!100600 SET STATEMENT max_statement_time = COALESCE(CAST(@leastlock_wait_s AS DECIMAL(20, 3)), 0) FOR */
UPDATE (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch, ? AS watermark, ? AS wait_ms) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = asked.group_id AND guard.topic = asked.topic AND guard.`partition` = asked.`partition`
   AND guard.epoch = asked.epoch
   SET guard.next_offset = asked.watermark
 WHERE guard.next_offset < asked.watermark AND asked.wait_ms >= 0
