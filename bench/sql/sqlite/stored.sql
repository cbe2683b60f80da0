-- Lock: none. A read outside a transaction sees the last committed state.
SELECT fingerprint, response_body
FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2 AND state = 'completed'
  AND expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
