-- Lock: none; one plain read. Events, those that the sink itself refused, keys that are blocked, and the age of the oldest.
SELECT count(*), count(p.refused_at), count(DISTINCT CASE WHEN q.blocks THEN p.queue END), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - min(p.parked_at)
FROM leastlock_outbox_parked AS p
LEFT JOIN leastlock_outbox_parked_queue AS q ON q.queue = p.queue
WHERE ($1 IS NULL OR p.topic = $2) AND ($3 IS NULL OR p.key = $4) AND ($5 = 0 OR p.refused_at IS NOT NULL)
