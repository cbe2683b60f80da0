-- Lock: none. That the session answers is what prolongs the lease. Behind a pooler that hands out another session, the
-- number is another.
SELECT pg_backend_pid()::bigint
