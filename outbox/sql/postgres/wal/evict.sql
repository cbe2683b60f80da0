-- Lock: none. Ends the session that has the slot, if it is one that a relay used to read it (its name says so) and the
-- asking relay holds the advisory lock in session $2: then it is left over from a relay that lost the lock.
SELECT count(pg_terminate_backend(slot.active_pid))
FROM pg_replication_slots AS slot
JOIN pg_stat_activity AS session ON session.pid = slot.active_pid
WHERE slot.slot_name = $1 AND session.pid <> pg_backend_pid() AND session.application_name = $3
  AND EXISTS (
      SELECT
      FROM pg_locks
      WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = 1819505783 AND objid = hashtext($1)::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid = $2
  )
