-- Takes no lock. Bounds the waits for one lock, for as long as a combiner keeps the connection: what runs without a transaction
-- has nowhere else to be bounded, and would wait for a table's lock as long as somebody keeps it. A bound of the connection's own
-- that is stricter stays; zero is none. What was in force is kept for release_connection.sql; OFFSET 0 has it read first.
SELECT set_config('leastlock.lock_timeout', own.lock_timeout, false),
       set_config(
           'lock_timeout',
           CASE WHEN extract(epoch FROM own.lock_timeout::interval) * 1000 BETWEEN 1 AND {lock_wait_ms}
                THEN own.lock_timeout
                ELSE '{lock_wait_ms}' END,
           false)
FROM (SELECT current_setting('lock_timeout') AS lock_timeout OFFSET 0) AS own
