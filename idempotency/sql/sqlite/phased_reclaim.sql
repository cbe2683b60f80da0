-- Lock: SQLite's one write lock, for this one statement. Of two claimants the second finds the record no longer expired.
-- Unfinished records do not expire.
UPDATE leastlock_idempotency
SET fingerprint = $1, state = 'running', owner_token = $2, generation = generation + 1,
    lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $3,
    start_by = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $4,
    recovery_point = NULL, step_data = NULL, response_status = NULL, response_headers = NULL, response_body = NULL,
    step_seq = 0, hold_reason = NULL, unknown_since = NULL, asks = 0, ask_after = NULL,
    created_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    expires_at = 9223372036854775807
WHERE scope = $5 AND idempotency_key = $6
  AND expires_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
