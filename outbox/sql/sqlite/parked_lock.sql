-- Lock: SQLite's one write lock, which the transaction holds to its end. The state of a queue.
SELECT state, topic, key
FROM leastlock_outbox_parked_queue
WHERE queue = $1
