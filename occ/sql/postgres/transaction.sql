-- Takes no lock. Names the open transaction, if it has written: its id, and the timeline of the server, because a replica
-- that was promoted without the last commits hands out the same ids again, to other transactions.
SELECT pg_current_xact_id_if_assigned()::text || '@' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
