-- The parked keys of a group, from where the last page ended, each with its records counted.
-- Lock: none; one plain read along the primary key.
SELECT parked.topic, parked.partition, parked.queue, parked.record_key, parked.blocks, parked.parking_topic,
       parked.state = 'releasing', parked.cause, parked.reason,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - parked.since,
       (SELECT count(*) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.partition = parked.partition AND waiting.queue = parked.queue),
       (SELECT min(waiting.record_offset) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.partition = parked.partition AND waiting.queue = parked.queue)
  FROM leastlock_partition_parked AS parked
 WHERE parked.group_id = ?1
   AND (?2 IS NULL OR parked.topic = ?3) AND (?4 IS NULL OR parked.queue = ?5)
   AND (parked.topic, parked.partition, parked.queue) > (?6, ?7, ?8)
 ORDER BY parked.topic, parked.partition, parked.queue
 LIMIT ?9
