-- Ends every session in this database but its own, as an operator may. It takes no lock.
SELECT pg_terminate_backend(pid)::int::bigint FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
