-- The parked keys of a group, from where the last page ended, each with its records counted.
-- Lock: none; one plain read along the primary key.
SELECT parked.topic, parked.partition::bigint, parked.queue, parked.record_key, parked.blocks::integer::bigint, parked.parking_topic,
       (parked.state = 'releasing')::integer::bigint, parked.cause, parked.reason,
       (extract(epoch FROM clock_timestamp() - parked.since) * 1000)::bigint,
       (SELECT count(*) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.partition = parked.partition AND waiting.queue = parked.queue),
       (SELECT min(waiting.record_offset) FROM leastlock_partition_parked_record AS waiting
         WHERE waiting.group_id = parked.group_id AND waiting.topic = parked.topic
           AND waiting.partition = parked.partition AND waiting.queue = parked.queue)
  FROM leastlock_partition_parked AS parked
 WHERE parked.group_id = $1
   AND ($2::text IS NULL OR parked.topic = $3) AND ($4::text IS NULL OR parked.queue = $5)
   AND (parked.topic, parked.partition, parked.queue) > ($6, $7::integer, $8)
 ORDER BY parked.topic, parked.partition, parked.queue
 LIMIT $9
