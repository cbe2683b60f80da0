-- Lock: the record's row, which the claim of this transaction holds. Right at every isolation level: the row is its own.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = ?
WHERE scope = ? AND idempotency_key = ? AND state = 'claimed'
