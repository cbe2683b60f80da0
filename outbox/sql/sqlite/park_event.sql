-- Lock: SQLite's one write lock, which the transaction holds to its end. A row that is there already is the same event, read again
-- after the cursor was set back: it keeps its place.
INSERT INTO leastlock_outbox_parked
    (shard, id, event_id, topic, key, value, headers, partition, created_at, reason, queue, refused_at)
SELECT $1, id, event_id, topic, key, value, headers, partition, created_at, $5, $3,
       CASE WHEN $4 <> 0 THEN CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) END
FROM leastlock_outbox
WHERE id = $2
ON CONFLICT (shard, id) DO NOTHING
