-- Who keeps a waiting seal from going on, run on another connection.
-- Lock: none.
SELECT activity.pid::bigint,
       coalesce(activity.state, 'unknown'),
       (extract(epoch FROM clock_timestamp() - activity.xact_start) * 1000)::bigint
  FROM unnest(pg_blocking_pids($1::integer)) AS blocking (pid)
  JOIN pg_stat_activity AS activity ON activity.pid = blocking.pid
 ORDER BY activity.xact_start
