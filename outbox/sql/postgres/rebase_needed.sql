-- Lock: every shard's row, to the end of the transaction: no relay claims or notes meanwhile. Isolation: READ COMMITTED. What
-- the survey looks at.
SELECT (s.system_id <> here.system_identifier
        OR pg_snapshot_xmax(s.done) > pg_snapshot_xmax(pg_current_snapshot())
        OR (SELECT o.xid
            FROM leastlock_outbox AS o
            WHERE o.shard = s.shard AND o.xid > pg_current_xact_id() AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
            ORDER BY o.xid
            LIMIT 1) IS NOT NULL)::integer::bigint
FROM leastlock_outbox_shard AS s
CROSS JOIN pg_control_system() AS here
ORDER BY s.shard
FOR UPDATE OF s
