-- Lock: the record's row, exclusively. Two claimants of one expired record that both have the shared lock of their refused
-- claim deadlock here: one of them begins again. Right at every isolation level: the condition is judged on the row as it
-- is, so only one of two claimants finds it expired.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
UPDATE leastlock_idempotency
SET fingerprint = ?, state = 'claimed', generation = generation + 1, lease_until = NULL, recovery_point = NULL,
    step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
    created_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND expires_at <= UTC_TIMESTAMP(6)
