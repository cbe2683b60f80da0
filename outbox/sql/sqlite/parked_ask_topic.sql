-- Lock: SQLite's one write lock, which the transaction holds to its end. Behind the last step's queue: one that was refused again
-- since is not asked for again.
UPDATE leastlock_outbox_parked_queue
SET state = 'retrying', asked_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE topic = $1 AND state = 'parked' AND queue > $2 AND queue <= $3
