-- Lock: SQLite's one write lock, which the transaction holds to its end. No row: the shard is another relay's now.
SELECT shard
FROM leastlock_outbox_shard
WHERE shard = $1 AND epoch = $2
