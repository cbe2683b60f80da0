-- Lock: the record's row, shared; the refused claim has it already. A plain read would show what the snapshot of a caller's
-- REPEATABLE READ transaction shows, where the record may be missing.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
SELECT state, fingerprint, response_status, response_headers, response_body, CAST(expires_at <= UTC_TIMESTAMP(6) AS SIGNED)
FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ?
LOCK IN SHARE MODE
