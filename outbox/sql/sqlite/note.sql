-- Lock: SQLite's one write lock for this one statement. Zero rows: the shard is another relay's now.
UPDATE leastlock_outbox_shard
SET last_id = $3
WHERE shard = $1 AND epoch = $2
