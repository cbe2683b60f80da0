-- Lock: the new record's row, exclusively; a duplicate waits here for the transaction that holds the key, up to the
-- innodb_lock_wait_timeout of the connection, and then fails with 1062. Isolation: READ COMMITTED, so that the SELECT after a
-- refusal sees the row that refused it.
INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
VALUES (?, ?, ?, 'claimed', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 24 HOUR)
