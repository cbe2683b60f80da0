-- Lock: none. What this statement shows may be old when it arrives, so whatever is decided by it is written by a statement
-- that has the generation, or the lease's end, in its condition.
SELECT state, fingerprint, generation, owner_token, lease_until - now_ms,
       step_data, response_status, response_headers, response_body,
       expires_at <= now_ms, hold_reason, start_by - now_ms,
       max(0, now_ms - coalesce(unknown_since, lease_until)),
       step_seq
FROM leastlock_idempotency, (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE scope = $1 AND idempotency_key = $2
