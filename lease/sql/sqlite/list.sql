-- Takes no lock, and is its own transaction: what stood there at one moment. In the order of the primary key, from behind ?1.
SELECT lock_name,
       owner_token,
       fencing_seq,
       max(0, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - acquired_at),
       max(0, COALESCE(lease_until - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0)),
       job_id,
       0
FROM leastlock_lease
WHERE lock_name > ?1 AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
ORDER BY lock_name
LIMIT ?2
