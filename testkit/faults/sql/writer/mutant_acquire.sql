-- The mutant: whether a lease has run out is decided by the clock of whoever asks ($5, in milliseconds since 1970), and not by the
-- database's. Lock: the row of the lock for this statement, as in the right one.
INSERT INTO leastlock_lease AS lease (lock_name, owner_token, fencing_seq, lease_until, updated_at, acquired_at)
VALUES ($1::text, $2::bytea, $4::bigint + 1, to_timestamp(($5::bigint + $3::bigint) / 1000.0), clock_timestamp(), clock_timestamp())
ON CONFLICT (lock_name) DO UPDATE SET
    fencing_seq = CASE WHEN lease.owner_token = excluded.owner_token THEN lease.fencing_seq
                       ELSE GREATEST(lease.fencing_seq, $4::bigint) + 1 END,
    owner_token = excluded.owner_token,
    lease_until = excluded.lease_until,
    updated_at = clock_timestamp()
WHERE lease.owner_token = excluded.owner_token
   OR lease.lease_until IS NULL OR lease.lease_until <= to_timestamp($5::bigint / 1000.0)
RETURNING fencing_seq::bigint
