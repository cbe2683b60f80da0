-- Lock: the record's row until the end of the transaction, so that what is decided by it still holds when it is written.
-- Isolation: READ COMMITTED; after a wait the row is read as it then is. Columns as in phased_record.sql.
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
FOR UPDATE
