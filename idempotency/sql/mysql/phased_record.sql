-- Lock: none; a statement in a transaction of its own reads what is committed. It may be old when it arrives, so whatever is
-- decided by it is written by a statement that has the generation, or the lease's end, in its condition.
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
