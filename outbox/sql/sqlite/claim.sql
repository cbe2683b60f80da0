-- Lock: SQLite's one write lock for this one statement. The epoch fences the previous owner.
UPDATE leastlock_outbox_shard
SET owner = $1, lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2, epoch = epoch + 1
WHERE lease_until IS NULL OR lease_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING shard, epoch, last_id
