-- Lock: SQLite's one write lock, which the transaction holds to its end. A queue that an event is parked *behind* and that is not
-- there any more has been drained since: its event is sent at once.
INSERT INTO leastlock_outbox_parked_queue (queue, shard, topic, key, blocks, state, asked_at)
SELECT $3, $1, topic, key, $4, CASE WHEN $5 <> 0 THEN 'parked' ELSE 'retrying' END,
       CASE WHEN $5 <> 0 THEN NULL ELSE CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) END
FROM leastlock_outbox
WHERE id = $2
ON CONFLICT (queue) DO NOTHING
