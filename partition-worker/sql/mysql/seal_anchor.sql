-- Fixes where the first owner of a partition starts; later owners find it fixed.
-- Lock: the guard row, exclusively; no handler of this epoch is open yet. READ COMMITTED: the epoch is compared in the row as it
-- is once locked.
UPDATE (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch, ? AS start) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = asked.group_id AND guard.topic = asked.topic AND guard.`partition` = asked.`partition`
   AND guard.epoch = asked.epoch
   SET guard.next_offset = asked.start
 WHERE guard.next_offset IS NULL
