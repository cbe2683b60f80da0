-- Lock: SQLite's one write lock, which the transaction holds to its end. One row: the queue was empty, and its key is free.
DELETE FROM leastlock_outbox_parked_queue AS q
WHERE q.queue = $1 AND NOT EXISTS (SELECT 1 FROM leastlock_outbox_parked AS p WHERE p.queue = q.queue)
