-- Lock: SQLite's one write lock, which the claim of this transaction holds.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $4
WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND state = 'claimed'
