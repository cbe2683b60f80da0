-- Lock: the record's row, which the claim of this transaction holds already. Right at every isolation level: the row is
-- this transaction's own; the generation refuses a completion of anything else.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $1
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND state = 'claimed'
