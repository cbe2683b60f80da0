-- Lock: the record's row, which the claim of this transaction holds already. Right at every isolation level: the row is
-- this transaction's own; the generation refuses a completion of anything else.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = ?, response_headers = ?, response_body = ?
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state = 'claimed'
