-- Lock: none; one plain read. Always one row: the columns of the slot are NULL if there is none of this name.
SELECT current_setting('wal_level'),
       slot.slot_name IS NOT NULL,
       slot.plugin::text,
       slot.database = current_database() AND slot.plugin = 'pgoutput',
       slot.wal_status,
       slot.confirmed_flush_lsn::text,
       greatest(log.at - slot.confirmed_flush_lsn, 0)::bigint,
       greatest(log.at - slot.restart_lsn, 0)::bigint,
       slot.safe_wal_size::bigint,
       pg_size_bytes(current_setting('max_slot_wal_keep_size')),
       extract(epoch FROM nullif(current_setting('idle_replication_slot_timeout', true), '')::interval)::bigint,
       EXISTS (SELECT FROM pg_publication WHERE pubname = $1),
       EXISTS (
           SELECT
           FROM pg_locks
           WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = 1819505783 AND objid = hashtext($1)::oid
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       ),
       (SELECT extract(epoch FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity WHERE backend_xid IS NOT NULL)::float8,
       (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_replication_slots')::bigint
FROM (SELECT pg_current_wal_lsn() AS at) AS log
LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = $1
