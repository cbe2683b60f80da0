-- Lock: none; settings and statistics. One row. What another role's session does is shown to members of pg_read_all_stats only.
SELECT current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names'),
       pg_is_in_recovery()::integer::bigint,
       (SELECT count(*) FROM pg_stat_replication),
       current_setting('autovacuum'),
       (SELECT coalesce(reloptions::text, '') FROM pg_class WHERE oid = 'leastlock_outbox'::regclass),
       (SELECT (extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000)::bigint
        FROM pg_stat_activity
        WHERE datname = current_database() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()),
       (SELECT (extract(epoch FROM max(clock_timestamp() - prepared)) * 1000)::bigint
        FROM pg_prepared_xacts
        WHERE database = current_database()),
       coalesce(n_live_tup, 0),
       coalesce(n_dead_tup, 0),
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > clock_timestamp()),
       (SELECT count(*) FROM leastlock_outbox_shard WHERE waits)
FROM (SELECT 1) AS one
LEFT JOIN pg_stat_user_tables ON relid = 'leastlock_outbox'::regclass
