-- Lock: the record's row, waited for as in phased_claim.sql. After a wait the condition is judged on the row as it then is, so
-- only one of two claimants finds it expired. Unfinished records do not expire.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
UPDATE leastlock_idempotency
SET fingerprint = ?, state = 'running', owner_token = ?, generation = generation + 1,
    lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND,
    start_by = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND,
    recovery_point = NULL, step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
    step_seq = 0, hold_reason = NULL, unknown_since = NULL, asks = 0, ask_after = NULL,
    created_at = UTC_TIMESTAMP(6), expires_at = '9999-12-31 23:59:59'
WHERE scope = ? AND idempotency_key = ? AND expires_at <= UTC_TIMESTAMP(6)
