-- Takes the file's one write lock before it does anything. The row stays, with its sequence and the nonce that is spent, so
-- that a repeated release finds the same answer.
UPDATE leastlock_lease
SET lease_until = NULL,
    updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE lock_name = ?1 AND owner_token = ?2
