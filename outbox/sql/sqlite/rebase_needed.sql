-- Lock: SQLite's one write lock, which the transaction took when it began.
SELECT s.last_id > coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'leastlock_outbox'), 0)
FROM leastlock_outbox_shard AS s
