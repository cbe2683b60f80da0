-- Lock: the record's row, which the claim of this transaction holds already. Right at every isolation level: the row is
-- this transaction's own; the generation refuses a completion of anything else.
UPDATE leastlock_idempotency
SET state = 'completed', response_body = $4
WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND state = 'claimed'
