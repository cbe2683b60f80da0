-- Lock: the record's row, waited for as in phased_claim.sql. READ COMMITTED: after a wait the condition is judged on the row
-- as it then is, so only one of two claimants finds it expired. Unfinished records do not expire.
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', '1s', true)
)
UPDATE leastlock_idempotency
SET fingerprint = $1, state = 'running', owner_token = $2, generation = generation + 1,
    lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond',
    start_by = clock_timestamp() + $4::bigint * interval '1 millisecond',
    recovery_point = NULL, step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
    step_seq = 0, hold_reason = NULL, unknown_since = NULL, asks = 0, ask_after = NULL,
    created_at = clock_timestamp(), expires_at = 'infinity'
FROM limits
WHERE scope = $5 AND idempotency_key = $6 AND expires_at <= clock_timestamp()
