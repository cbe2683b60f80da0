-- Takes the advisory lock of the session if it is free, and then says in the session's name who has it and since when.
SELECT CASE WHEN pg_try_advisory_lock($1::bigint) THEN set_config('application_name', 'leastlock ' || $2::text || ' '
           || (extract(epoch FROM clock_timestamp()) * 1000)::bigint || ' ' || $3::text, false) END
