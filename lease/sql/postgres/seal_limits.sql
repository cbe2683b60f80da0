-- Takes no lock. Bounds, for the transaction that is about to raise the guard row, its wait for open checks and, should
-- this process be stopped with the row locked, the wait of everybody else for it.
SELECT pg_backend_pid()::bigint,
       set_config('statement_timeout', $1::bigint::text, true),
       set_config('lock_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', $2::bigint::text, true)
