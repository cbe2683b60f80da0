-- Lock: none beyond the new rows; their queues' rows are held (park_queues.sql). Isolation: READ COMMITTED, in the transaction of
-- note.sql. A row that is there already is the same event, read again after the cursor was set back: it keeps its place.
INSERT INTO leastlock_outbox_parked
    (shard, id, event_id, topic, key, value, headers, partition, created_at, reason, queue, refused_at)
SELECT o.shard, o.id, o.event_id, o.topic, o.key, o.value, o.headers, o.partition, o.created_at, p.reason, p.queue,
       CASE WHEN p.refused <> 0 THEN clock_timestamp() END
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[]) AS p (shard, id, queue, refused, reason)
JOIN leastlock_outbox AS o ON o.shard = p.shard::smallint AND o.id = p.id
ON CONFLICT (shard, id) DO NOTHING
