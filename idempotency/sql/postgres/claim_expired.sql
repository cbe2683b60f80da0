-- Lock: the record's row; waits for another claimant of the same expired record up to lock_timeout, set and put back as in
-- claim.sql. Isolation: READ COMMITTED: after the wait the condition is judged on the row as it then is, so only one of
-- two claimants finds it expired.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS lock_timeout
), limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', $5::text, true) AS lock_timeout,
           set_config(
               'idle_in_transaction_session_timeout',
               CASE WHEN $7::bigint = 1
                     AND extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
                         BETWEEN 1 AND $6::bigint
                    THEN current_setting('idle_in_transaction_session_timeout')
                    ELSE $6::bigint::text END,
               true)
    FROM before
), claimed AS (
    UPDATE leastlock_idempotency
    SET fingerprint = $3, state = 'claimed', generation = generation + 1, lease_until = NULL, recovery_point = NULL,
        step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
        created_at = clock_timestamp(), expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
    FROM limits
    WHERE scope = $1 AND idempotency_key = $2 AND expires_at <= clock_timestamp()
    RETURNING generation
)
SELECT claimed.generation, set_config('lock_timeout', before.lock_timeout, true)
FROM before
LEFT JOIN claimed ON true
