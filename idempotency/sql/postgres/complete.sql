-- Lock: the record's row, which the claim of this transaction holds already. Right at every isolation level: the row is
-- this transaction's own; the generation refuses a completion of anything else.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1::bigint, response_headers = $2, response_body = $3
WHERE scope = $4 AND idempotency_key = $5 AND generation = $6 AND state = 'claimed'
