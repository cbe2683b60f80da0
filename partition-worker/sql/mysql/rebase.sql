-- Sets anew where a group goes on; which topic it is has to be found out anew.
-- Lock: the guard row, exclusively, until the transaction ends. READ COMMITTED: the epoch, which the seal before this has claimed
-- and no handler has, is compared in the row as it is once locked. No row: another owner has sealed since.
UPDATE (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch, ? AS start) AS asked
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = asked.group_id AND guard.topic = asked.topic AND guard.`partition` = asked.`partition`
   AND guard.epoch = asked.epoch
   SET guard.next_offset = asked.start, guard.topic_id = NULL
