-- Lock: none. Isolation: READ COMMITTED. The next events of a shard, by their ids, that have been published: what the shard's snapshot
-- sees, and of a window under way what is behind its last id. An empty text asks for all ($5, $6: topic, event id; times in ms).
SELECT o.id, o.event_id::text, o.topic, o.key, o.value, o.headers, o.partition::bigint, 0::bigint
FROM leastlock_outbox_shard AS s
JOIN leastlock_outbox AS o ON o.shard = s.shard
WHERE s.shard = $1::bigint::smallint
  AND o.id > $2
  AND o.id <= $3
  AND (pg_visible_in_snapshot(o.xid, s.done)
       OR coalesce(o.id <= s.last_id AND pg_visible_in_snapshot(o.xid, s.target), false))
  AND o.created_at >= to_timestamp($4::bigint / 1000.0)
  AND ($5 = '' OR o.topic = $5)
  AND ($6 = '' OR o.event_id::text = $6)
ORDER BY o.id
LIMIT $7
