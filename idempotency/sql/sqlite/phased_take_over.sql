-- Lock: SQLite's one write lock, for this one statement. Of two claimants the second finds another generation.
-- From here on the generation refuses every write of the owner before.
UPDATE leastlock_idempotency
SET owner_token = $1, generation = generation + 1,
    lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2
WHERE scope = $3 AND idempotency_key = $4 AND generation = $5 AND state = 'running'
  AND lease_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
