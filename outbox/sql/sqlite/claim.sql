-- Lock: SQLite's one write lock for this one statement. The epoch fences the previous owner. Free for this owner is also a
-- shard that bears its name though it does not hold it ($3 is not 1): it lost the answer of an earlier claim, or gave it up.
UPDATE leastlock_outbox_shard
SET owner = $1, lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2, epoch = epoch + 1
WHERE $4 > 0
  AND (lease_until IS NULL
       OR lease_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
       OR (owner = $1 AND $3 = 0))
RETURNING shard, epoch, last_id
