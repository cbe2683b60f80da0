-- Takes no lock, and is its own transaction: what stood there at one moment.
SELECT lock_name,
       owner_token,
       fencing_seq::bigint,
       GREATEST(0, extract(epoch FROM clock_timestamp() - acquired_at) * 1000)::bigint,
       GREATEST(0, COALESCE(extract(epoch FROM lease_until - clock_timestamp()) * 1000, 0))::bigint,
       job_id,
       CASE WHEN lease_until IS NULL THEN 2 WHEN lease_until <= clock_timestamp() THEN 1 ELSE 0 END::bigint
FROM leastlock_lease
WHERE lock_name = $1::text
