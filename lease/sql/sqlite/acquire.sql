-- Takes the file's one write lock before it does anything: nothing changes between its parts, and 'now' is read after the
-- wait. The same nonce keeps its token and extends; any other owner raises it, above the floor as
-- well. A nonce that has released (lease_until IS NULL) is spent: an attempt of its own that arrives late must not take
-- the lock again. What the owner has that this one comes after (?6) is as good as released.
INSERT INTO leastlock_lease AS lease
    (lock_name, owner_token, fencing_seq, lease_until, updated_at, acquired_at, job_id)
VALUES
    (?1, ?2, ?4 + 1, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?3,
     CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
     CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), ?5)
ON CONFLICT (lock_name) DO UPDATE SET
    fencing_seq = CASE WHEN lease.owner_token = excluded.owner_token THEN lease.fencing_seq
                       ELSE max(lease.fencing_seq, ?4) + 1 END,
    acquired_at = CASE WHEN lease.owner_token = excluded.owner_token THEN lease.acquired_at
                       ELSE excluded.acquired_at END,
    owner_token = excluded.owner_token,
    lease_until = excluded.lease_until,
    updated_at = excluded.updated_at,
    job_id = excluded.job_id
WHERE CASE WHEN lease.owner_token = excluded.owner_token THEN lease.lease_until IS NOT NULL
           ELSE lease.lease_until IS NULL OR lease.lease_until <= excluded.updated_at OR lease.owner_token = ?6 END
RETURNING fencing_seq
