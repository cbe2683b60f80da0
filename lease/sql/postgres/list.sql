-- Takes no lock, and is its own transaction: what stood there at one moment. In the order of the primary key, from behind $1.
SELECT lock_name,
       owner_token,
       fencing_seq::bigint,
       GREATEST(0, extract(epoch FROM clock_timestamp() - acquired_at) * 1000)::bigint,
       GREATEST(0, COALESCE(extract(epoch FROM lease_until - clock_timestamp()) * 1000, 0))::bigint,
       job_id,
       0::bigint
FROM leastlock_lease
WHERE lock_name > $1::text AND lease_until > clock_timestamp()
ORDER BY lock_name
LIMIT $2::bigint
