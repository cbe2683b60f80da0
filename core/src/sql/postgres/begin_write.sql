-- Begins a transaction of the library's own. READ COMMITTED whatever the server's default is.
-- Lock: none yet. What the transaction locks later must not outlive a stopped process, so the same message bounds idling in
-- it to 10 s; a bound of the session that is stricter stays, and a statement may set another for its own transaction.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config(
    'idle_in_transaction_session_timeout',
    CASE WHEN extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) BETWEEN 0.001 AND 10
         THEN current_setting('idle_in_transaction_session_timeout')
         ELSE '10s' END,
    true)
