-- The last statement of the work's transaction, on a row that it has inserted itself. No row: somebody has taken the mark out of
-- the transaction, which then must not commit.
UPDATE leastlock_once
SET completed_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE job = ?1 AND period = ?2 AND owner_token = ?3
