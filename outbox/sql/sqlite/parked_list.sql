-- Lock: none; one plain read. Along the primary key from where the last page ended. Without the values, which may be large.
SELECT p.shard, p.id, p.event_id, p.topic, p.key, length(p.value), p.reason, p.attempts, p.refused_at IS NOT NULL,
       coalesce(q.blocks, 0), coalesce(q.state <> 'parked', 0),
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - p.created_at,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - p.parked_at
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE ($1 IS NULL OR p.topic = $2) AND ($3 IS NULL OR p.key = $4) AND ($5 = 0 OR p.refused_at IS NOT NULL)
  AND (p.shard, p.id) > ($6, $7)
ORDER BY p.shard, p.id
LIMIT $8
