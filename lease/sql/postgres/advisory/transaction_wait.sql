-- Waits in the server's queue for the advisory lock of the caller's transaction, bounded by this statement's own lock_timeout, which
-- is then what it was before. Over, it is an error that ends the transaction, so the caller has a savepoint.
WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value)
SELECT set_config('lock_timeout', $2::bigint::text, true),
       pg_advisory_xact_lock($1::bigint)::text,
       set_config('lock_timeout', before.value, true)
FROM before
