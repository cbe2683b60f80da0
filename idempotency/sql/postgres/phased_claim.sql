-- Lock: the unique index makes the claim wait for an open transaction on the same key (a unit of the transactional mode, a
-- local step that is being committed), for a second at most: lock_timeout holds for this statement's own transaction.
-- Isolation: READ COMMITTED, one statement in a transaction of its own. A row that is there already is left as it is and
-- read by the next statement. A record that is not finished never expires: only a finished one gets an end.
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', '1s', true)
)
INSERT INTO leastlock_idempotency
    (scope, idempotency_key, fingerprint, state, owner_token, lease_until, start_by, created_at, expires_at)
SELECT $1, $2, $3, 'running', $4,
       clock_timestamp() + $5::bigint * interval '1 millisecond',
       clock_timestamp() + $6::bigint * interval '1 millisecond',
       clock_timestamp(), 'infinity'
FROM limits
ON CONFLICT (scope, idempotency_key) DO NOTHING
