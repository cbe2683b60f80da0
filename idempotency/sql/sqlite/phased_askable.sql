-- Lock: none. Who asks takes the record first, by phased_ask.sql. The partial index on unfinished records serves it.
-- Columns as in phased_unknown.sql, and the number of asks.
SELECT state, fingerprint, generation, owner_token, lease_until - now_ms,
       step_data, response_status, response_headers, response_body,
       expires_at <= now_ms, hold_reason, start_by - now_ms,
       max(0, now_ms - coalesce(unknown_since, lease_until)),
       step_seq, scope, idempotency_key, asks
FROM leastlock_idempotency, (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE ((state = 'held' AND unknown_since <= now_ms - $1)
    OR (state = 'running' AND lease_until <= now_ms - $2))
  AND asks < $3 AND (ask_after IS NULL OR ask_after <= now_ms)
ORDER BY coalesce(ask_after, unknown_since, lease_until)
LIMIT $4
