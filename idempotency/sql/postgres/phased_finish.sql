-- Lock: the record's row, for this one statement. Right at every isolation level: the generation is the fence. The owner stays
-- in the record, so that a completion whose reply was lost can be recognised.
UPDATE leastlock_idempotency
SET state = 'completed', response_status = $1::bigint::integer, response_headers = $2, response_body = $3, lease_until = NULL,
    expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
WHERE scope = $5 AND idempotency_key = $6 AND generation = $7 AND owner_token = $8 AND state = 'running'
