-- Waits in the server's queue for the advisory lock of the session, behind whoever came before, and then says who has it.
SELECT pg_advisory_lock($1::bigint)::text,
       set_config('application_name', 'leastlock ' || $2::text || ' '
           || (extract(epoch FROM clock_timestamp()) * 1000)::bigint || ' ' || $3::text, false)
