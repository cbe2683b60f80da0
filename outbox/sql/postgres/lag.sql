-- Lock: none. Isolation: READ COMMITTED, one statement. What is in a window under way lies behind its last id, the rest behind its snapshot (or
-- behind `done` where there is no window); both are found through an index, and only up to a thousand of a shard are counted. Where
-- there are more, ids tell how many: they are given in turn to all shards that take events.
-- The rows of an open transaction cannot be seen. What can is the lock that it holds since its first append; the start of another
-- role's transaction is shown to members of pg_read_all_stats only.
WITH shard AS MATERIALIZED (
    SELECT s.shard, count(new.id) AS counted, min(new.id) AS first_id, min(new.created_at) AS oldest
    FROM leastlock_outbox_shard AS s
    LEFT JOIN LATERAL (
        SELECT *
        FROM (
            (
                SELECT o.id, o.created_at
                FROM leastlock_outbox AS o
                WHERE s.target IS NOT NULL
                  AND o.shard = s.shard
                  AND o.id > s.last_id
                  AND pg_visible_in_snapshot(o.xid, s.target)
                  AND NOT pg_visible_in_snapshot(o.xid, s.done)
                ORDER BY o.id
                LIMIT 1000
            )
            UNION ALL
            (
                SELECT late.id, late.created_at
                FROM pg_snapshot_xip(coalesce(s.target, s.done)) AS in_progress (xid)
                CROSS JOIN LATERAL (
                    SELECT *
                    FROM leastlock_outbox
                    WHERE shard = s.shard AND xid = in_progress.xid
                    OFFSET 0
                ) AS late
                LIMIT 1000
            )
            UNION ALL
            (
                SELECT o.id, o.created_at
                FROM leastlock_outbox AS o
                WHERE o.shard = s.shard AND o.xid >= pg_snapshot_xmax(coalesce(s.target, s.done))
                ORDER BY o.xid
                LIMIT 1000
            )
        ) AS any_of
        LIMIT 1000
    ) AS new ON true
    GROUP BY s.shard
), last AS MATERIALIZED (
    SELECT max((SELECT max(id) FROM leastlock_outbox AS o WHERE o.shard = s.shard)) AS id,
           count(*) FILTER (WHERE NOT s.retired) AS shards
    FROM leastlock_outbox_shard AS s
)
SELECT (SELECT (extract(epoch FROM max(clock_timestamp() - coalesce(a.xact_start, p.prepared))) * 1000)::bigint
        FROM pg_locks AS l
        LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
        LEFT JOIN pg_prepared_xacts AS p ON l.virtualtransaction = '-1/' || p.transaction::text
        WHERE l.locktype = 'relation'
          AND l.relation = 'leastlock_outbox'::regclass
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND l.mode = 'RowExclusiveLock'
          AND l.granted),
       (extract(epoch FROM clock_timestamp() - min(shard.oldest)) * 1000)::bigint,
       sum(CASE WHEN shard.counted < 1000 THEN shard.counted ELSE greatest(1000, (last.id - shard.first_id) / last.shards) END)::bigint,
       bool_and(shard.counted < 1000)::integer::bigint,
       (SELECT (extract(epoch FROM clock_timestamp() - min(parked_at)) * 1000)::bigint FROM leastlock_outbox_parked),
       (SELECT count(*) FROM leastlock_outbox_parked),
       coalesce(max(last.id), 0)
FROM shard
CROSS JOIN last
