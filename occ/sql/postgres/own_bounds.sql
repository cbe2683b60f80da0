-- Takes no lock. The bounds in force on this connection, of waits for locks and of idling in a transaction, in milliseconds; zero
-- is none. Asked once a connection, since it costs as much as a small batch.
SELECT (extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint,
       (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::bigint
