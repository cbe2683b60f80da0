-- Lock: none; one plain read. Large events that a read has found and has room for, by their primary keys. They are visible in any snapshot
-- that follows the one in which they were found.
SELECT o.shard::bigint, o.id, uuid_send(o.event_id), o.topic, o.key, o.value, o.headers, o.partition::bigint,
       (date_part('epoch', clock_timestamp() - o.created_at) * 1000)::bigint
FROM unnest($1::bigint[], $2::bigint[]) AS wanted (shard, id)
JOIN leastlock_outbox AS o ON o.shard = wanted.shard::smallint AND o.id = wanted.id
