-- Lock: the shards' rows, which are locked already. The new snapshot sees all that has ended in this database, and not this transaction
-- itself: pg_current_snapshot() leaves the own id out of those in progress, hence the list. The epoch fences every relay.
UPDATE leastlock_outbox_shard
SET done = new.done,
    target = NULL,
    last_id = 0,
    seen_id = coalesce((SELECT max(id) FROM leastlock_outbox AS o WHERE o.shard = leastlock_outbox_shard.shard), 0),
    system_id = new.system_identifier,
    epoch = epoch + 1,
    owner = NULL,
    lease_until = NULL
FROM (
    SELECT here.system_identifier,
           (least(pg_snapshot_xmin(now.snapshot), pg_current_xact_id())::text || ':'
            || pg_snapshot_xmax(now.snapshot)::text || ':'
            || coalesce((
                SELECT string_agg(xid::text, ',' ORDER BY xid)
                FROM (
                    SELECT pg_snapshot_xip(now.snapshot) AS xid
                    UNION
                    SELECT pg_current_xact_id() WHERE pg_current_xact_id() < pg_snapshot_xmax(now.snapshot)
                ) AS in_progress
            ), ''))::pg_snapshot AS done
    FROM (SELECT pg_current_snapshot() AS snapshot) AS now
    CROSS JOIN pg_control_system() AS here
) AS new
