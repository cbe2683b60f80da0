-- Lock: none. How many more connections the server would take from anybody; the last ones are kept for its administrators.
SELECT current_setting('max_connections')::bigint
     - current_setting('superuser_reserved_connections')::bigint
     - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
