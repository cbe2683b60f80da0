-- Takes no lock: whether this connection's own bounds of waits for locks and of idling in a transaction are stricter than
-- $1 and $2 milliseconds, as 1 or 0. Zero is no bound. Asked once a connection, since it costs as much as a small batch.
SELECT (extract(epoch FROM current_setting('lock_timeout')::interval) * 1000 BETWEEN 1 AND $1::bigint)::int::bigint,
       (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
           BETWEEN 1 AND $2::bigint)::int::bigint
