-- Takes the file's one write lock before it does anything. Never an upsert, and only while the lease stands: an expired,
-- stolen or released one is a definite no.
UPDATE leastlock_lease
SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?1,
    updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE lock_name = ?2 AND owner_token = ?3 AND fencing_seq = ?4
  AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
