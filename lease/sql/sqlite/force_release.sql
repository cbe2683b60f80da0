-- Under the file's one write lock. The approval is compared with the clock as it is now. The operation becomes the owner, with a
-- token of its own, and has released at once: the holder before it finds at its next renewal that it is none, and whoever comes next
-- gets a token above both.
UPDATE leastlock_lease
SET owner_token = ?1,
    fencing_seq = fencing_seq + 1,
    lease_until = NULL,
    updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    acquired_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    job_id = NULL
WHERE lock_name = ?2 AND CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) < ?3
