-- Lock: SQLite's one write lock, which the transaction holds to its end. To another queue, if it is to be parked alone from now on.
UPDATE leastlock_outbox_parked
SET attempts = attempts + 1, refused_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), reason = $1, queue = $2
WHERE shard = $3 AND id = $4
