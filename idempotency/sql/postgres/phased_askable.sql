-- Lock: none. Who asks takes the record first, by phased_ask.sql. The partial indexes leastlock_idempotency_running and _held serve it.
-- Columns as in phased_unknown.sql, and the number of asks.
SELECT state, fingerprint, generation, owner_token,
       (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint,
       step_data, response_status::bigint, response_headers, response_body,
       (expires_at <= clock_timestamp())::int::bigint,
       hold_reason,
       (extract(epoch FROM start_by - clock_timestamp()) * 1000)::bigint,
       greatest(0, (extract(epoch FROM clock_timestamp() - coalesce(unknown_since, lease_until)) * 1000)::bigint),
       step_seq, scope, idempotency_key, asks
FROM leastlock_idempotency
WHERE ((state = 'held' AND unknown_since <= clock_timestamp() - $1::bigint * interval '1 millisecond')
    OR (state = 'running' AND lease_until <= clock_timestamp() - $2::bigint * interval '1 millisecond'))
  AND asks < $3 AND (ask_after IS NULL OR ask_after <= clock_timestamp())
ORDER BY coalesce(ask_after, unknown_since, lease_until)
LIMIT $4
