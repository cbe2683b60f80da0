-- Lock: none. Isolation: READ COMMITTED: run after a refused claim, its snapshot has the row that refused it.
SELECT fingerprint, response_body
FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ? AND state = 'completed' AND expires_at > UTC_TIMESTAMP(6)
