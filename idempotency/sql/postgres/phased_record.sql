-- Lock: none. READ COMMITTED: what this statement shows may be old when it arrives, so whatever is decided by it is written
-- by a statement that has the generation, or the lease's end, in its condition.
SELECT state, fingerprint, generation, owner_token,
       (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint,
       step_data, response_status::bigint, response_headers, response_body,
       (expires_at <= clock_timestamp())::int::bigint,
       hold_reason,
       (extract(epoch FROM start_by - clock_timestamp()) * 1000)::bigint,
       greatest(0, (extract(epoch FROM clock_timestamp() - coalesce(unknown_since, lease_until)) * 1000)::bigint),
       step_seq
FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2
