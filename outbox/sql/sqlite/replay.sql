-- Lock: none beyond the transaction's. The next events of the shard ($1), by their ids, that have been published. An empty text asks for
-- all ($5, $6: topic, event id; times in ms).
SELECT o.id, o.event_id, o.topic, o.key, o.value, o.headers, o.partition, 0
FROM leastlock_outbox AS o
WHERE o.id > $2
  AND o.id <= min($3, (SELECT last_id FROM leastlock_outbox_shard WHERE shard = $1))
  AND o.created_at >= $4
  AND ($5 = '' OR o.topic = $5)
  AND ($6 = '' OR o.event_id = $6)
ORDER BY o.id
LIMIT $7
