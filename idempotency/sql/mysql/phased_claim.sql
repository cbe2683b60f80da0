-- Lock: the new record's row; waits for an open transaction on the same key (a unit of the transactional mode, a local step
-- that is being committed), for a second at most on MariaDB; MySQL has the session's bound only. 1062 is a record that is there
-- already: it is left as it is and read by the next statement. Never INSERT IGNORE. One statement in a transaction of its
-- own, right at every isolation level. A record that is not finished never expires: only a finished one gets an end.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
INSERT INTO leastlock_idempotency
    (scope, idempotency_key, fingerprint, state, owner_token, lease_until, start_by, created_at, expires_at)
VALUES (?, ?, ?, 'running', ?, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, UTC_TIMESTAMP(6), '9999-12-31 23:59:59')
