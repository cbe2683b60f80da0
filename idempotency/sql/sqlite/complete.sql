-- Lock: SQLite's one write lock, which the claim of this transaction holds.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $1
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND state = 'claimed'
