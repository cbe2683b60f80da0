-- Takes no lock. Takes a session of this role out of the server's queue.
SELECT pg_cancel_backend($1::bigint::int)::int::bigint
