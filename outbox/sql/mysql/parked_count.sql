-- Lock: none; one plain read. Events, those that the sink itself refused, keys that are blocked, and the age of the oldest.
SELECT count(*), count(p.refused_at), count(DISTINCT IF(q.blocks, p.queue, NULL)), TIMESTAMPDIFF(MICROSECOND, min(p.parked_at), UTC_TIMESTAMP(6)) DIV 1000
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE (? IS NULL OR p.topic = ?) AND (? IS NULL OR p.`key` = ?) AND (? = 0 OR p.refused_at IS NOT NULL)
