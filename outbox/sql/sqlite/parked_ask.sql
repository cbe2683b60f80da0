-- Lock: SQLite's one write lock, which the transaction holds to its end. The relay finds it.
UPDATE leastlock_outbox_parked_queue
SET state = $1, asked_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE queue = $2
