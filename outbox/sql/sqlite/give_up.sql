-- Lock: SQLite's one write lock for this one statement. By the epoch: a shard that another relay holds by now stays with it.
UPDATE leastlock_outbox_shard
SET owner = NULL, lease_until = NULL
WHERE shard = $1 AND epoch = $2
