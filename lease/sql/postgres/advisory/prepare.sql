-- Takes no lock. A session that sends nothing for a TTL is ended, and its lock with it (PostgreSQL 14; an older one goes on until
-- the connection breaks). Its waits are not bounded: whoever gives up cancels them.
SELECT pg_backend_pid()::bigint,
       set_config('lock_timeout', '0', false),
       set_config('statement_timeout', '0', false),
       (SELECT set_config(name, $1::bigint::text, false) FROM pg_settings WHERE name = 'idle_session_timeout')
