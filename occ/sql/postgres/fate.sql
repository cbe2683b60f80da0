-- Takes no lock: tells how the transaction of that name ended. NULL if it is too old to be known, or if another server has
-- taken over since. An id that the server has not reached yet is an error, which tells nothing.
SELECT CASE WHEN split_part($1::text, '@', 2) = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
            THEN pg_xact_status(split_part($1::text, '@', 1)::xid8) END
