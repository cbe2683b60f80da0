-- Lock: the unique index makes a duplicate wait for the transaction that holds the key, up to lock_timeout, which is set
-- inside this statement and put back before it ends, so that it bounds no statement of the caller's.
-- Isolation: READ COMMITTED. A row committed after this statement began is neither inserted nor seen: then all columns
-- but the last are NULL, and the caller asks again. Under REPEATABLE READ PostgreSQL raises 40001 instead.
-- A record that is seen is answered with, and nothing is written, locked or set.
-- The idle time-out holds for the transaction: an owner that stops inside it is ended by the server, and its key is free.
-- In a caller's transaction ($7 = 1) a stricter one that holds already stays.
WITH existing AS MATERIALIZED (
    SELECT record.state, record.fingerprint, record.response_status, record.response_headers, record.response_body,
           record.expires_at, current_setting('lock_timeout') AS lock_timeout
    FROM (SELECT) AS always
    LEFT JOIN leastlock_idempotency AS record ON record.scope = $1 AND record.idempotency_key = $2
), claimed AS (
    INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
    SELECT $1, $2, $3, 'claimed', clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 millisecond'
    FROM (
        SELECT set_config('lock_timeout', $5::text, true),
               set_config(
                   'idle_in_transaction_session_timeout',
                   CASE WHEN $7::bigint = 1
                         AND extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
                             BETWEEN 1 AND $6::bigint
                        THEN current_setting('idle_in_transaction_session_timeout')
                        ELSE $6::bigint::text END,
                   true)
        FROM existing
        WHERE existing.state IS NULL
        OFFSET 0
    ) AS limits
    ON CONFLICT (scope, idempotency_key) DO NOTHING
    RETURNING generation
)
SELECT claimed.generation,
       existing.state,
       existing.fingerprint,
       existing.response_status::bigint,
       existing.response_headers,
       existing.response_body,
       (existing.expires_at <= clock_timestamp())::int::bigint,
       CASE WHEN existing.state IS NULL THEN set_config('lock_timeout', existing.lock_timeout, true) END
FROM existing
LEFT JOIN claimed ON true
