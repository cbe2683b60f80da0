-- Lock: SQLite's one write lock, which the transaction holds to its end. Not if an operator has asked for more meanwhile.
UPDATE leastlock_outbox_parked_queue
SET state = 'parked', asked_at = NULL
WHERE queue = $1 AND state = 'retrying'
