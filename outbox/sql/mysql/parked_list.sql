-- Lock: none; one plain read. Along the primary key from where the last page ended. Without the values, which may be large.
SELECT p.shard, p.id, p.event_id, p.topic, p.`key`, octet_length(p.value), p.reason, p.attempts, p.refused_at IS NOT NULL,
       coalesce(q.blocks, 0) + 0, coalesce(q.state <> 'parked', 0),
       TIMESTAMPDIFF(MICROSECOND, p.created_at, UTC_TIMESTAMP(6)) DIV 1000,
       TIMESTAMPDIFF(MICROSECOND, p.parked_at, UTC_TIMESTAMP(6)) DIV 1000
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE (? IS NULL OR p.topic = ?) AND (? IS NULL OR p.`key` = ?) AND (? = 0 OR p.refused_at IS NOT NULL)
  AND (p.shard, p.id) > (?, ?)
ORDER BY p.shard, p.id
LIMIT ?
