-- On the row that this transaction has locked already, so it waits for nobody, and UTC_TIMESTAMP is now; the approval is compared
-- with it. The operation becomes the owner, with a token of its own, and has released at once: the holder before it finds at its
-- next renewal that it is none, and whoever comes next gets a token above both.
UPDATE leastlock_lease
SET owner_token = ?,
    fencing_seq = fencing_seq + 1,
    lease_until = NULL,
    updated_at = UTC_TIMESTAMP(6),
    acquired_at = UTC_TIMESTAMP(6),
    job_id = NULL
WHERE lock_name = ?
  AND UTC_TIMESTAMP(6) < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? * 1000 MICROSECOND
