-- Lock: none beyond the write lock that the refused claim took in the same transaction.
SELECT state, fingerprint, response_status, response_headers, response_body,
       expires_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2
