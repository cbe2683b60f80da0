-- Lock: the record's row, for this one statement. Right at every isolation level. Generation and owner are
-- in the condition. A lease that has run out is taken up again only if nobody took the key over meanwhile, which the
-- generation would show.
UPDATE leastlock_idempotency
SET lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
