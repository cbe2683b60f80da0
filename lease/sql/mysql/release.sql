-- Takes the row's exclusive lock for this one statement, which is its own transaction. Right at every isolation level: a new
-- owner is seen after the wait. The row stays, with its sequence and the nonce that is spent, so that a repeated release
-- finds the same answer.
UPDATE leastlock_lease
SET lease_until = NULL,
    updated_at = UTC_TIMESTAMP(6)
WHERE lock_name = ? AND owner_token = ?
