-- Takes the row's exclusive lock for this statement, which is its own transaction. Right at READ COMMITTED: a new owner is seen
-- after the wait; at stricter levels that is a serialization failure, which is no answer, and as safe. The row stays, with its
-- sequence and the nonce that is spent, so that a repeated release finds the same answer. Whoever waits is notified when this
-- commits; a release for which nobody waits does not take the lock that a NOTIFY takes at its commit.
UPDATE leastlock_lease
SET lease_until = NULL,
    updated_at = clock_timestamp()
WHERE lock_name = $1::text AND owner_token = $2::bytea
RETURNING CASE WHEN awaited_until > clock_timestamp() THEN pg_notify('leastlock_lease', lock_name)::text END
