-- Gives the advisory lock of the session up; answers whether it was there.
SELECT pg_advisory_unlock($1::bigint)::int::bigint
