-- Lock: none. Isolation: READ COMMITTED, one statement, so that pg_current_snapshot() is the snapshot that the rows are
-- read with. What is visible in it and was not in the shard's `done` is new: transactions that began after `done`, and
-- those that were in progress then. Both are found through the index (shard, xid); OFFSET 0 keeps the planner from turning the
-- second into a scan of the whole shard, which it prefers where few transactions wrote many rows.
-- Ordered by id inside a shard: ids of one key follow the order of its lock, and a snapshot that sees a later event of a
-- key sees the earlier ones. The shards come one after the other, as the nested loop finds them: a sort of all rows is spared, and the
-- reader looks at the order once more. Answers one row of NULLs besides the snapshot when nothing is new.
-- What takes more than $4 bytes comes without its value and headers, which are not even unpacked (TOAST) for that.
SELECT now.snapshot::text, e.shard, e.id, e.event_id, e.topic, e.key, e.value, e.headers, e.partition, e.age_ms, e.bytes
FROM (SELECT pg_current_snapshot() AS snapshot) AS now
LEFT JOIN LATERAL (
    SELECT c.shard::bigint, page.*
    FROM (
        SELECT shard::smallint, done::pg_snapshot
        FROM unnest($1::bigint[], $2::text[]) AS place (shard, done)
        OFFSET 0
    ) AS c
    CROSS JOIN LATERAL (
        SELECT new.id, uuid_send(new.event_id) AS event_id, new.topic, new.key,
               CASE WHEN new.bytes <= $4 THEN new.value END AS value,
               CASE WHEN new.bytes <= $4 THEN new.headers END AS headers,
               new.partition::bigint,
               (date_part('epoch', clock_timestamp() - new.created_at) * 1000)::bigint AS age_ms,
               new.bytes
        FROM (
            SELECT o.*, coalesce(octet_length(o.key), 0)::bigint + coalesce(octet_length(o.value), 0) + octet_length(o.headers) AS bytes
            FROM leastlock_outbox AS o
            WHERE o.shard = c.shard
              AND o.xid >= pg_snapshot_xmax(c.done)
              AND o.xid < pg_snapshot_xmax(now.snapshot)
              AND pg_visible_in_snapshot(o.xid, now.snapshot)
            UNION ALL
            SELECT o.*, coalesce(octet_length(o.key), 0)::bigint + coalesce(octet_length(o.value), 0) + octet_length(o.headers)
            FROM pg_snapshot_xip(c.done) AS in_progress (xid)
            CROSS JOIN LATERAL (
                SELECT *
                FROM leastlock_outbox
                WHERE shard = c.shard AND xid = in_progress.xid
                OFFSET 0
            ) AS o
            WHERE pg_visible_in_snapshot(o.xid, now.snapshot)
        ) AS new
        ORDER BY new.id
        LIMIT $3
    ) AS page
) AS e ON true
