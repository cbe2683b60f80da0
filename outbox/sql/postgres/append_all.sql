-- Lock: none beyond the new rows. Right at every isolation level, as append.sql. Sorted by their places, so that the ids, which are
-- drawn after the sort, keep the order of the arrays. Bytes come in the notation of bytea, and an empty text is NULL; a partition
-- below zero is none.
INSERT INTO leastlock_outbox (shard, event_id, topic, key, value, headers, partition)
SELECT shard::smallint, event_id::uuid, topic, NULLIF(key, '')::bytea, NULLIF(value, '')::bytea, headers,
       NULLIF(partition, -1)::integer
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
     WITH ORDINALITY AS event (shard, event_id, topic, key, value, headers, partition, place)
ORDER BY place
