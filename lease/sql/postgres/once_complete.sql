-- The last statement of the work's transaction, on a row that it has inserted itself: it waits for nobody, and is right at every
-- isolation level. No row: somebody has taken the mark out of the transaction, which then must not commit.
UPDATE leastlock_once
SET completed_at = clock_timestamp()
WHERE job = $1::text AND period = $2::text AND owner_token = $3::bytea
