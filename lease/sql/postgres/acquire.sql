-- Takes the row's exclusive lock for this one statement, which is its own transaction, so that a process which stops never holds
-- it. Right at READ COMMITTED: after a wait, WHERE and SET are evaluated on the row as it is then, with the clock as it is then;
-- at stricter levels a wait may end in a serialization failure, which is no answer, and as safe.
-- The same nonce keeps its token and extends; any other owner raises it, above the floor as well. A nonce that has
-- released (lease_until IS NULL) is spent: an attempt of its own that arrives late must not take the lock again. What the owner
-- has that this one comes after ($6) is as good as released.
INSERT INTO leastlock_lease AS lease
    (lock_name, owner_token, fencing_seq, lease_until, updated_at, acquired_at, job_id)
VALUES
    ($1::text, $2::bytea, $4::bigint + 1, clock_timestamp() + $3::bigint * interval '1 millisecond',
     clock_timestamp(), clock_timestamp(), $5::text)
ON CONFLICT (lock_name) DO UPDATE SET
    fencing_seq = CASE WHEN lease.owner_token = excluded.owner_token THEN lease.fencing_seq
                       ELSE GREATEST(lease.fencing_seq, $4::bigint) + 1 END,
    acquired_at = CASE WHEN lease.owner_token = excluded.owner_token THEN lease.acquired_at
                       ELSE clock_timestamp() END,
    owner_token = excluded.owner_token,
    lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond',
    updated_at = clock_timestamp(),
    job_id = excluded.job_id
WHERE CASE WHEN lease.owner_token = excluded.owner_token THEN lease.lease_until IS NOT NULL
           ELSE lease.lease_until IS NULL OR lease.lease_until <= clock_timestamp() OR lease.owner_token = $6::bytea END
RETURNING fencing_seq::bigint
