-- Lock: the record's row, which the claim of this transaction holds. Right at every isolation level: the row is its own.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $3
WHERE scope = $1 AND idempotency_key = $2 AND state = 'claimed'
