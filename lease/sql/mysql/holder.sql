-- Takes no lock: it only tells who holds the lock, for the answer to one who did not get it. It is its own transaction, so
-- it sees what made the statement before it answer nothing, or something newer.
SELECT owner_token,
       fencing_seq,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6)) DIV 1000),
       GREATEST(0, COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000, 0)),
       job_id
FROM leastlock_lease
WHERE lock_name = ?
