-- Takes the row's exclusive lock for this one statement, which is its own transaction. Right at every isolation level: an
-- UPDATE sees the row as it is. SET is evaluated from left to right, so what compares the owner comes before the owner; the
-- other way round a new owner would get the token of the one before. The token goes back with the answer (LAST_INSERT_ID),
-- as there is no RETURNING. The same nonce keeps its token and extends; any other owner raises it, above the floor as well. A
-- nonce that has released (lease_until IS NULL) is spent. UTC_TIMESTAMP is the time at which the statement began, so after a
-- wait a lease seems to stand for a little longer, and what is granted is a little shorter: both are safe. What the owner has
-- that this one comes after (the last parameter) is as good as released.
UPDATE leastlock_lease
SET fencing_seq = LAST_INSERT_ID(IF(owner_token = ?, fencing_seq, GREATEST(fencing_seq, ?) + 1)),
    acquired_at = IF(owner_token = ?, acquired_at, UTC_TIMESTAMP(6)),
    owner_token = ?,
    lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND,
    updated_at = UTC_TIMESTAMP(6),
    job_id = ?
WHERE lock_name = ?
  AND IF(owner_token = ?, lease_until IS NOT NULL,
         lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(6) OR owner_token = ?)
