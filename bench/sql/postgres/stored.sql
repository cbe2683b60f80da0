-- Lock: none. Isolation: READ COMMITTED: run after a refused claim, its snapshot has the row that refused it.
SELECT fingerprint, response_body
FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2 AND state = 'completed' AND expires_at > clock_timestamp()
