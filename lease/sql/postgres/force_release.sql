-- On the row that this transaction has locked already, so it waits for nobody. The approval is compared with the clock as it is now.
-- The operation becomes the owner, with a token of its own, and has released at once: the holder before it finds at its next renewal
-- that it is none, and whoever comes next gets a token above both. Waiters are told when this commits.
UPDATE leastlock_lease
SET owner_token = $1::bytea,
    fencing_seq = fencing_seq + 1,
    lease_until = NULL,
    updated_at = clock_timestamp(),
    acquired_at = clock_timestamp(),
    job_id = NULL
WHERE lock_name = $2::text
  AND clock_timestamp() < timestamptz 'epoch' + $3::bigint * interval '1 millisecond'
RETURNING CASE WHEN awaited_until > clock_timestamp() THEN pg_notify('leastlock_lease', lock_name)::text END
