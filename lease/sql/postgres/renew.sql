-- Takes the row's exclusive lock for this statement, which is its own transaction. Right at READ COMMITTED: whoever stole the
-- row in between is seen after the wait; at stricter levels that is a serialization failure, which is no answer, and as safe.
-- Never an upsert, and only while the lease stands: an expired, stolen or released one is a definite no.
UPDATE leastlock_lease
SET lease_until = clock_timestamp() + $1::bigint * interval '1 millisecond',
    updated_at = clock_timestamp()
WHERE lock_name = $2::text AND owner_token = $3::bytea AND fencing_seq = $4::bigint
  AND lease_until > clock_timestamp()
