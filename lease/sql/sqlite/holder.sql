-- Takes no lock: it sees what made the statement before it answer nothing, or something newer.
SELECT owner_token,
       fencing_seq,
       max(0, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - acquired_at),
       max(0, COALESCE(lease_until - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0)),
       job_id
FROM leastlock_lease
WHERE lock_name = ?1
