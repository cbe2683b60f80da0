-- Lock: the unique index makes a duplicate wait for the transaction that holds the key, up to the lock_timeout of the
-- connection. Isolation: READ COMMITTED, so that the SELECT after a refusal sees the row that refused it.
INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
VALUES ($1, $2, $3, 'claimed', clock_timestamp(), clock_timestamp() + interval '24 hours')
ON CONFLICT (scope, idempotency_key) DO NOTHING
