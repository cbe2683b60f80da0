-- Lock: SQLite's one write lock, which the claim of this transaction holds.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1, response_headers = $2, response_body = $3
WHERE scope = $4 AND idempotency_key = $5 AND generation = $6 AND state = 'claimed'
