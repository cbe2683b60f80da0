-- Lock: none; one plain read. The session that holds the lock by which a relay is the slot's one reader.
SELECT pid::bigint
FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = 1819505783 AND objid = hashtext($1)::oid
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
