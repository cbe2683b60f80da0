-- Notes which topic of that name it is, where that is not known yet.
-- Lock: the guard row, exclusively; no handler of this epoch is open yet. READ COMMITTED: the epoch is compared in the row as it is
-- once locked.
UPDATE (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch, ? AS topic_id) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = asked.group_id AND guard.topic = asked.topic AND guard.`partition` = asked.`partition`
   AND guard.epoch = asked.epoch
   SET guard.topic_id = asked.topic_id
 WHERE guard.topic_id IS NULL
