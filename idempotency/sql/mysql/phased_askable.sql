-- Lock: none. Who asks takes the record first, by phased_ask.sql. The index on the state serves it.
-- Columns as in phased_unknown.sql, and the number of asks.
SELECT state, fingerprint, generation, owner_token,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000,
       step_data, CAST(response_status AS SIGNED), response_headers, response_body,
       CAST(expires_at <= UTC_TIMESTAMP(6) AS SIGNED),
       hold_reason,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), start_by) DIV 1000,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, COALESCE(unknown_since, lease_until), UTC_TIMESTAMP(6)) DIV 1000),
       step_seq, scope, idempotency_key, asks
FROM leastlock_idempotency
WHERE ((state = 'held' AND unknown_since <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND)
    OR (state = 'running' AND lease_until <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND))
  AND asks < ? AND (ask_after IS NULL OR ask_after <= UTC_TIMESTAMP(6))
ORDER BY COALESCE(ask_after, unknown_since, lease_until)
LIMIT ?
