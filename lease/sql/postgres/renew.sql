-- Takes the row's exclusive lock for this statement. Right at READ COMMITTED: whoever stole the row in between is seen
-- after the wait. Never an upsert, and only while the lease stands: an expired, stolen or released one is a definite no.
UPDATE leastlock_lease
SET lease_until = clock_timestamp() + $4::bigint * interval '1 millisecond',
    updated_at = clock_timestamp()
WHERE lock_name = $1::text AND owner_token = $2::bytea AND fencing_seq = $3::bigint
  AND lease_until > clock_timestamp()
