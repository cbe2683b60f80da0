-- Takes no table lock. Tells whom the backend $1 waits for; state and age are NULL where the role may not see them.
SELECT pid::bigint,
       state,
       (extract(epoch FROM clock_timestamp() - state_change) * 1000)::bigint
FROM pg_stat_activity
WHERE pid = ANY (pg_blocking_pids($1::bigint::int))
