-- Lock: none. What is listed may have changed by the time it is read; a resolution looks again, with the row locked.
-- The partial indexes leastlock_idempotency_running and _held serve it, however many finished ones there are. Columns as in phased_record.sql.
SELECT state, fingerprint, generation, owner_token,
       (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint,
       step_data, response_status::bigint, response_headers, response_body,
       (expires_at <= clock_timestamp())::int::bigint,
       hold_reason,
       (extract(epoch FROM start_by - clock_timestamp()) * 1000)::bigint,
       greatest(0, (extract(epoch FROM clock_timestamp() - coalesce(unknown_since, lease_until)) * 1000)::bigint),
       step_seq, scope, idempotency_key
FROM leastlock_idempotency
WHERE (state = 'held' AND unknown_since <= clock_timestamp() - $1::bigint * interval '1 millisecond')
   OR (state = 'running' AND lease_until <= clock_timestamp() - $2::bigint * interval '1 millisecond')
ORDER BY coalesce(unknown_since, lease_until)
LIMIT $3
