-- Lock: the record's row, which the claim of this transaction holds. Right at every isolation level: the row is its own.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $1
WHERE scope = $2 AND idempotency_key = $3 AND state = 'claimed'
