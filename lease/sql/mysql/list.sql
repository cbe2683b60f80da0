-- Takes no lock, and is its own transaction: what stood there at one moment. In the order of the primary key, from behind a name.
SELECT lock_name,
       owner_token,
       fencing_seq,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6)) DIV 1000),
       GREATEST(0, COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000, 0)),
       job_id,
       0
FROM leastlock_lease
WHERE lock_name > ? AND lease_until > UTC_TIMESTAMP(6)
ORDER BY lock_name
LIMIT ?
