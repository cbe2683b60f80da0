-- Lock: gives the session's advisory lock back.
SELECT pg_advisory_unlock(1819505783, hashtext($1))::text
