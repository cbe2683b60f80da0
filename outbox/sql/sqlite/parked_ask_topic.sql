-- Lock: SQLite's one write lock, which the transaction holds to its end.
UPDATE leastlock_outbox_parked_queue
SET state = 'retrying', asked_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE queue IN (
    SELECT queue FROM leastlock_outbox_parked_queue WHERE topic = $1 AND state = 'parked' ORDER BY queue LIMIT $2
)
