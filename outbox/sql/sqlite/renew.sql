-- Lock: SQLite's one write lock for this one statement. By the epoch, so that only what the relay knows that it holds is
-- renewed. A lease that is over is not renewed.
UPDATE leastlock_outbox_shard
SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $3
WHERE shard = $1 AND epoch = $2 AND lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
