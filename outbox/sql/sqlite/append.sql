-- Lock: SQLite's one write lock, which the caller's transaction holds to its end. The shard ($1) is always 0.
INSERT INTO leastlock_outbox (event_id, topic, key, value, headers, partition)
SELECT $2, $3, $4, $5, $6, $7
WHERE $1 = 0
