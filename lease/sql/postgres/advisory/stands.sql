-- Takes no lock. Whether this session has the advisory lock: asked in that session it ends its idling as well, and in another one
-- it tells what has become of one whose connection is broken.
SELECT count(*)::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid = $2::bigint
  AND ((classid::bigint << 32) | objid::bigint) = $1::bigint
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
