-- Lock: the record's row until the end of the transaction, so that what is decided by it still holds when it is written.
-- Right at every isolation level: a locking read shows the row as it is. Columns as in phased_record.sql.
SELECT state, fingerprint, generation, owner_token,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000,
       step_data, CAST(response_status AS SIGNED), response_headers, response_body,
       CAST(expires_at <= UTC_TIMESTAMP(6) AS SIGNED),
       hold_reason,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), start_by) DIV 1000,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, COALESCE(unknown_since, lease_until), UTC_TIMESTAMP(6)) DIV 1000),
       step_seq
FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ?
FOR UPDATE
