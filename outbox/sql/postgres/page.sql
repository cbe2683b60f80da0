-- Lock: none. Isolation: READ COMMITTED. The next page of windows that were too large for one: the window is fixed (what
-- `target` sees and `done` did not), and paged along the primary key. A lower id that became visible later is not in
-- `target`, so it belongs to the next window. The snapshots are read once, not for each row (OFFSET 0 keeps them there).
-- The shards come one after the other, each in the order of its ids, as the nested loop finds them: a sort of all rows is spared, and
-- the reader looks at the order once more. What takes more than $6 bytes comes without its value and headers, as in read.sql.
SELECT c.shard::bigint, page.*
FROM (
    SELECT shard::smallint, done::pg_snapshot, target::pg_snapshot, last_id
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS place (shard, done, target, last_id)
    OFFSET 0
) AS c
CROSS JOIN LATERAL (
    SELECT o.id, uuid_send(o.event_id), o.topic, o.key,
           CASE WHEN size.bytes <= $6 THEN o.value END,
           CASE WHEN size.bytes <= $6 THEN o.headers END,
           o.partition::bigint,
           (date_part('epoch', clock_timestamp() - o.created_at) * 1000)::bigint AS age_ms,
           size.bytes
    FROM leastlock_outbox AS o
    CROSS JOIN LATERAL (
        SELECT coalesce(octet_length(o.key), 0)::bigint + coalesce(octet_length(o.value), 0) + octet_length(o.headers) AS bytes
    ) AS size
    WHERE o.shard = c.shard
      AND o.id > c.last_id
      AND pg_visible_in_snapshot(o.xid, c.target)
      AND NOT pg_visible_in_snapshot(o.xid, c.done)
    ORDER BY o.id
    LIMIT $5
) AS page
