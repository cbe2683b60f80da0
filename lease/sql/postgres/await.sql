-- Takes the row's exclusive lock for this one statement, which is its own transaction. Whoever releases while somebody waits
-- notifies. No row: the lock is free, or its lease has run out, so there is nothing to wait for. Right at every isolation
-- level: a stricter one than READ COMMITTED fails instead of waiting for what has gone.
UPDATE leastlock_lease
SET awaited_until = GREATEST(awaited_until, clock_timestamp() + $1::bigint * interval '1 millisecond')
WHERE lock_name = $2::text AND lease_until > clock_timestamp()
