-- Lock: SQLite's one write lock, for this one statement or until the end of a local step's transaction. The generation is the
-- fence.
-- The sequence refuses an earlier write that was given up unanswered and arrives only now.
UPDATE leastlock_idempotency
SET step_data = $1, recovery_point = $2, step_seq = step_seq + 1,
    lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $3
WHERE scope = $4 AND idempotency_key = $5 AND generation = $6 AND owner_token = $7 AND state = 'running'
  AND step_seq = $8
