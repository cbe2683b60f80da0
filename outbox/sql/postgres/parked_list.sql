-- Lock: none; one plain read. Along the primary key from where the last page ended. Without the values, which may be large.
SELECT p.shard::bigint, p.id, p.event_id::text, p.topic, p.key, octet_length(p.value)::bigint, p.reason, p.attempts,
       (p.refused_at IS NOT NULL)::int::bigint, coalesce(q.blocks, false)::int::bigint,
       coalesce(q.state <> 'parked', false)::int::bigint,
       (extract(epoch FROM clock_timestamp() - p.created_at) * 1000)::bigint,
       (extract(epoch FROM clock_timestamp() - p.parked_at) * 1000)::bigint
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE ($1::text IS NULL OR p.topic = $2) AND ($3::bytea IS NULL OR p.key = $4)
  AND ($5::bigint = 0 OR p.refused_at IS NOT NULL)
  AND (p.shard, p.id) > ($6::bigint, $7::bigint)
ORDER BY p.shard, p.id
LIMIT $8
