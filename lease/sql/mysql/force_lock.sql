-- Takes the row's exclusive lock until the release and its audit are committed, so that nobody acquires, renews or releases in
-- between. A locking read sees the row as it is, at every isolation level.
SELECT lock_name,
       owner_token,
       fencing_seq,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6)) DIV 1000),
       GREATEST(0, COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000, 0)),
       job_id,
       CASE WHEN lease_until IS NULL THEN 2 WHEN lease_until <= UTC_TIMESTAMP(6) THEN 1 ELSE 0 END
FROM leastlock_lease
WHERE lock_name = ?
FOR UPDATE
