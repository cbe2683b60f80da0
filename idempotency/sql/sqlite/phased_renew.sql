-- Lock: SQLite's one write lock, for this one statement. Generation and owner are in the condition. A lease that has run
-- out is taken up again only if nobody took the key over meanwhile, which the generation would show.
UPDATE leastlock_idempotency
SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND owner_token = $5 AND state = 'running'
