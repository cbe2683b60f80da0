-- Takes no lock, and is its own transaction: it sees what is committed.
SELECT owner_token,
       max(0, completed_at - began_at),
       max(0, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - completed_at)
FROM leastlock_once
WHERE job = ?1 AND period = ?2
