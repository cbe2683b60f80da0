-- The last statement of the work's transaction, on a row that it has inserted itself: it waits for nobody, and is right at every
-- isolation level. Rows that are found count, changed or not. No row: somebody has taken the mark out of the transaction, which
-- then must not commit.
UPDATE leastlock_once
SET completed_at = UTC_TIMESTAMP(6)
WHERE job = ? AND period = ? AND owner_token = ?
