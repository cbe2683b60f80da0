-- Takes the advisory lock for the caller's transaction if it is free; it ends with the transaction, however that ends.
SELECT pg_try_advisory_xact_lock($1::bigint)::int::bigint
