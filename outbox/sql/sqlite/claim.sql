-- Lock: SQLite's one write lock for this one statement. The epoch fences the previous owner. Where the owner holds
-- nothing ($3 is not 0), free for it is also a shard that bears its name: it lost the answer of an earlier claim, or gave it up.
UPDATE leastlock_outbox_shard
SET owner = $1, lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $2, epoch = epoch + 1
WHERE $3 > 0
  AND (lease_until IS NULL
       OR lease_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
       OR owner = $1)
RETURNING shard, epoch, last_id
