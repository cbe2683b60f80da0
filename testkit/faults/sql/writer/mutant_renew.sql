-- The mutant: a renewal that takes the lock where it was only to keep it. Lock: the row of the lock for this statement.
INSERT INTO leastlock_lease AS lease (lock_name, owner_token, fencing_seq, lease_until, updated_at, acquired_at)
VALUES ($1::text, $2::bytea, $4::bigint, clock_timestamp() + $3::bigint * interval '1 millisecond', clock_timestamp(), clock_timestamp())
ON CONFLICT (lock_name) DO UPDATE SET
    owner_token = excluded.owner_token,
    fencing_seq = excluded.fencing_seq,
    lease_until = excluded.lease_until,
    updated_at = clock_timestamp()
