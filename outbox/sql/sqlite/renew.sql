-- Lock: SQLite's one write lock for this one statement. A lease that is over is not renewed.
UPDATE leastlock_outbox_shard
SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2
WHERE owner = $1 AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
