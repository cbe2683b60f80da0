-- Takes no lock: it only tells who holds the lock, for the answer to one who did not get it. It is its own
-- transaction, so it sees what made the statement before it answer nothing, or something newer.
SELECT owner_token,
       fencing_seq::bigint,
       GREATEST(0, extract(epoch FROM clock_timestamp() - acquired_at) * 1000)::bigint,
       GREATEST(0, COALESCE(extract(epoch FROM lease_until - clock_timestamp()) * 1000, 0))::bigint,
       job_id
FROM leastlock_lease
WHERE lock_name = $1::text
