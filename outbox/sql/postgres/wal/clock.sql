-- Lock: none. How far the log is on disk, which is as far as it can be decoded, and the time.
SELECT pg_current_wal_flush_lsn()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
