-- Takes the row's exclusive lock until the release and its audit are committed, so that nobody acquires, renews or releases in
-- between. Right at READ COMMITTED: after a wait the row is read as it is then.
SELECT lock_name,
       owner_token,
       fencing_seq::bigint,
       GREATEST(0, extract(epoch FROM clock_timestamp() - acquired_at) * 1000)::bigint,
       GREATEST(0, COALESCE(extract(epoch FROM lease_until - clock_timestamp()) * 1000, 0))::bigint,
       job_id,
       CASE WHEN lease_until IS NULL THEN 2 WHEN lease_until <= clock_timestamp() THEN 1 ELSE 0 END::bigint
FROM leastlock_lease
WHERE lock_name = $1::text
FOR UPDATE
