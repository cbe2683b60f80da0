-- Takes the row's exclusive lock for this statement. Right at READ COMMITTED: a new owner is seen after the wait. The row
-- stays, with its sequence and the nonce that is spent, so that a repeated release finds the same answer.
UPDATE leastlock_lease
SET lease_until = NULL,
    updated_at = clock_timestamp()
WHERE lock_name = $1::text AND owner_token = $2::bytea
