-- Under the file's one write lock (BEGIN IMMEDIATE), until the release and its audit are committed.
SELECT lock_name,
       owner_token,
       fencing_seq,
       max(0, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - acquired_at),
       max(0, COALESCE(lease_until - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0)),
       job_id,
       CASE WHEN lease_until IS NULL THEN 2
            WHEN lease_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN 1
            ELSE 0 END
FROM leastlock_lease
WHERE lock_name = ?1
