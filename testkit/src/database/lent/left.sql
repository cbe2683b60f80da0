-- What an earlier test has left that is in no schema; of a new database this is nothing. Takes no lock that a writer waits for, and is
-- right at each isolation level, since the database is of this test alone. 16384 is the first number that an object gets after initdb.
SELECT 'publication ' || pubname::text FROM pg_publication
UNION ALL SELECT 'event trigger ' || evtname::text FROM pg_event_trigger
UNION ALL SELECT 'subscription ' || subname::text FROM pg_subscription
    WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'setting' FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'slot ' || slot_name::text FROM pg_replication_slots WHERE database = current_database()
UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL SELECT 'rights' FROM pg_database
    WHERE datname = current_database() AND (datacl IS NOT NULL OR datconnlimit <> -1 OR NOT datallowconn)
UNION ALL SELECT 'default rights' FROM pg_default_acl
UNION ALL SELECT 'large object' FROM pg_largeobject_metadata
UNION ALL SELECT 'extension ' || extname::text FROM pg_extension WHERE oid >= 16384
UNION ALL SELECT 'language ' || lanname::text FROM pg_language WHERE oid >= 16384
UNION ALL SELECT 'cast' FROM pg_cast WHERE oid >= 16384
UNION ALL SELECT 'foreign data wrapper ' || fdwname::text FROM pg_foreign_data_wrapper
UNION ALL SELECT 'table ' || relname::text FROM pg_class WHERE oid >= 16384 AND relnamespace = 'pg_catalog'::regnamespace
UNION ALL SELECT 'function ' || proname::text FROM pg_proc WHERE oid >= 16384
