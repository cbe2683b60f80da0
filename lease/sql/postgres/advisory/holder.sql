-- Takes no lock: it only tells who has the lock, by the name of that session, for how long it has been idle, and the time now.
SELECT activity.application_name::text,
       GREATEST(0, COALESCE(extract(epoch FROM clock_timestamp() - activity.state_change) * 1000, 0))::bigint,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       activity.pid::bigint
FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
  AND ((held.classid::bigint << 32) | held.objid::bigint) = $1::bigint
  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
