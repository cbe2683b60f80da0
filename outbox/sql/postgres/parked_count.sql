-- Lock: none; one plain read. Events, those that the sink itself refused, keys that are blocked, and the age of the oldest.
SELECT count(*), count(p.refused_at), count(DISTINCT p.queue) FILTER (WHERE q.blocks),
       (extract(epoch FROM clock_timestamp() - min(p.parked_at)) * 1000)::bigint
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE ($1::text IS NULL OR p.topic = $2) AND ($3::bytea IS NULL OR p.key = $4)
  AND ($5::bigint = 0 OR p.refused_at IS NOT NULL)
