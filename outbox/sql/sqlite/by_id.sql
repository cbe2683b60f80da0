-- Lock: none; one plain read. A large event that a read has found and has room for.
SELECT id, event_id, topic, key, value, headers, partition,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - created_at
FROM leastlock_outbox
WHERE id = $1
