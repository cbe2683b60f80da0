-- Lock: the new record's row, exclusively; a duplicate waits here for the transaction that holds the key, then fails with
-- 1062 and a shared lock on the record, so that the locking read which follows finds it. Never INSERT IGNORE. Right at every
-- isolation level: an insert meets what is there, not what a snapshot shows.
-- The bound on the wait (whole seconds, 0 is none) holds for this statement alone; MySQL has the session's bound only.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at)
VALUES (?, ?, ?, 'claimed', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)
