-- Lock: none. What is listed may have changed by the time it is read; a resolution looks again, with the row locked.
-- The partial index on unfinished records serves it, however many finished ones there are. Columns as in phased_record.sql.
SELECT state, fingerprint, generation, owner_token, lease_until - now_ms,
       step_data, response_status, response_headers, response_body,
       expires_at <= now_ms, hold_reason, start_by - now_ms,
       max(0, now_ms - coalesce(unknown_since, lease_until)),
       step_seq, scope, idempotency_key
FROM leastlock_idempotency, (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE (state = 'held' AND unknown_since <= now_ms - $1)
   OR (state = 'running' AND lease_until <= now_ms - $2)
ORDER BY coalesce(unknown_since, lease_until)
LIMIT $3
