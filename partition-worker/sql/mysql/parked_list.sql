-- The parked keys of a group, from where the last page ended, each with its records counted.
-- Lock: none; one plain read along the primary key.
SELECT parked.topic, CAST(parked.`partition` AS SIGNED), parked.queue, parked.record_key, parked.blocks + 0, parked.parking_topic,
       parked.state = 'releasing', parked.cause, parked.reason,
       TIMESTAMPDIFF(MICROSECOND, parked.since, UTC_TIMESTAMP(6)) DIV 1000,
       (SELECT count(*) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.`partition` = parked.`partition` AND waiting.queue = parked.queue),
       (SELECT min(waiting.record_offset) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.`partition` = parked.`partition` AND waiting.queue = parked.queue)
  FROM leastlock_partition_parked AS parked
 WHERE parked.group_id = ?
   AND (? IS NULL OR parked.topic = ?) AND (? IS NULL OR parked.queue = ?)
   AND (parked.topic, parked.`partition`, parked.queue) > (?, ?, ?)
 ORDER BY parked.topic, parked.`partition`, parked.queue
 LIMIT ?
