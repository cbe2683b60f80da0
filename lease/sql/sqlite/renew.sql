-- Runs under the file's one write lock (BEGIN IMMEDIATE). Never an upsert, and only while the lease stands: an expired,
-- stolen or released one is a definite no.
UPDATE leastlock_lease
SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?4,
    updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE lock_name = ?1 AND owner_token = ?2 AND fencing_seq = ?3
  AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
