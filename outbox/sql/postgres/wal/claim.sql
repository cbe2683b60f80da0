-- Lock: an advisory lock of the session, if nobody has it: its holder is the one reader of the slot. The lock ends with
-- the session, and the server ends a session that has been silent for the lease, or does not take what is sent to it:
-- so a relay that was stopped holds nobody up. The settings are made in the statement that takes the lock: a relay that
-- is stopped right after it has them too. OFFSET 0 keeps the lock from being taken more than once.
SELECT taken.lock, pg_backend_pid()::bigint, pg_postmaster_start_time()::text,
       CASE WHEN taken.lock THEN set_config('idle_session_timeout', $2, false) END,
       CASE WHEN taken.lock THEN set_config('tcp_user_timeout', $2, false) END
FROM (SELECT pg_try_advisory_lock(1819505783, hashtext($1)) AS lock OFFSET 0) AS taken
