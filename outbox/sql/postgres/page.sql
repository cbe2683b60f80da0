-- Lock: none. Isolation: READ COMMITTED. The next page of windows that were too large for one: the window is fixed (what
-- `target` sees and `done` did not), and paged along the primary key. A lower id that became visible later is not in
-- `target`, so it belongs to the next window.
SELECT c.shard, page.*
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS c (shard, done, target, last_id)
CROSS JOIN LATERAL (
    SELECT o.id, o.event_id::text, o.topic, o.key, o.value, o.headers, o.partition::bigint,
           (extract(epoch FROM clock_timestamp() - o.created_at) * 1000)::bigint AS age_ms
    FROM leastlock_outbox AS o
    WHERE o.shard = c.shard::smallint
      AND o.id > c.last_id
      AND pg_visible_in_snapshot(o.xid, c.target::pg_snapshot)
      AND NOT pg_visible_in_snapshot(o.xid, c.done::pg_snapshot)
    ORDER BY o.id
    LIMIT $5
) AS page
ORDER BY c.shard, page.id
