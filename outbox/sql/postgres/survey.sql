-- Lock: the relay's own row, for one statement. Isolation: READ COMMITTED. Says that the relay is there, and answers who else is
-- and who holds which shard; what is over by the database's clock counts for nothing. A shard that waits can be held by nobody
-- and is not among them. The rows of relays that are gone are removed, but none that another relay is at work on.
-- With each shard come the cluster in which it was last claimed and this one, and its snapshot and the present one: a difference
-- says that the database was restored or moved. So does an event of a transaction that this cluster has not begun yet, the only sign where
-- no shard was ever claimed. Not before the snapshot's end, since no row of such a transaction can be seen in it; a transaction that
-- began after this one and has committed can. And later than this statement's own, so that there are hardly any to look
-- through, however large the open ones are. A subquery with ORDER BY, which the planner answers by the index (shard, xid).
WITH me AS (
    INSERT INTO leastlock_outbox_relay AS relay (owner, seen_until)
    VALUES ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
    ON CONFLICT (owner) DO UPDATE SET seen_until = excluded.seen_until
), gone AS (
    DELETE FROM leastlock_outbox_relay
    WHERE owner IN (
        SELECT owner
        FROM leastlock_outbox_relay
        WHERE seen_until <= clock_timestamp() - interval '1 minute' AND owner <> $1
        FOR UPDATE SKIP LOCKED
    )
)
SELECT s.shard::bigint,
       CASE WHEN s.lease_until > clock_timestamp() THEN s.owner END,
       greatest(ceil(extract(epoch FROM s.lease_until - clock_timestamp()) * 1000), 0)::bigint,
       s.system_id,
       here.system_identifier,
       s.done::text,
       pg_current_snapshot()::text,
       s.waits::integer::bigint,
       (SELECT o.xid
        FROM leastlock_outbox AS o
        WHERE o.shard = s.shard AND o.xid > pg_current_xact_id() AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
        ORDER BY o.xid
        LIMIT 1)::text,
       s.generation
FROM leastlock_outbox_shard AS s
CROSS JOIN pg_control_system() AS here
UNION ALL
SELECT NULL, r.owner, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM leastlock_outbox_relay AS r
WHERE r.seen_until > clock_timestamp()
