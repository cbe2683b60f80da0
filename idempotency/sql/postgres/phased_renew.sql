-- Lock: the record's row, for this one statement. Right at every isolation level: generation and owner are in the condition. A
-- lease that has run out is taken up again only if nobody took the key over meanwhile, which the generation would show.
UPDATE leastlock_idempotency
SET lease_until = clock_timestamp() + $1::bigint * interval '1 millisecond'
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND owner_token = $5 AND state = 'running'
