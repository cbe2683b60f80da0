-- Lock: SQLite's one write lock, which the transaction holds to its end. By its id, not up to one: a queue is not known to have no
-- lower one.
DELETE FROM leastlock_outbox_parked
WHERE shard = $1 AND id = $2
