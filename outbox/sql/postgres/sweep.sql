-- Lock: the rows deleted, for one statement. Isolation: READ COMMITTED. Rows that a mark of long enough ago sees as published, along
-- the index (shard, xid) from $3 on: it costs what it deletes, however many rows are kept. Whoever runs it, and however often,
-- only such rows go. Answers how many they were, and from which transaction on to look
-- the next time: the last among them, of which further rows may be left, but none beyond the first that the mark shows in progress: what
-- that wrote is seen by a later mark.
WITH mark AS MATERIALIZED (
    SELECT done
    FROM leastlock_outbox_mark
    WHERE shard = $1::bigint::smallint AND noted_at <= clock_timestamp() - $2::bigint * interval '1 millisecond'
    ORDER BY noted_at DESC
    LIMIT 1
), old AS MATERIALIZED (
    SELECT o.id, o.xid
    FROM mark
    CROSS JOIN LATERAL (
        SELECT id, xid
        FROM leastlock_outbox
        WHERE shard = $1::bigint::smallint
          AND xid >= $3::text::xid8
          AND xid < pg_snapshot_xmax(mark.done)
          AND pg_visible_in_snapshot(xid, mark.done)
        ORDER BY xid
        LIMIT $4
    ) AS o
), gone AS (
    DELETE FROM leastlock_outbox AS o
    USING old
    WHERE o.shard = $1::bigint::smallint AND o.id = old.id
)
SELECT count(*), least(max(old.xid::text::bigint), (SELECT pg_snapshot_xmin(done)::text::bigint FROM mark))::text
FROM old
