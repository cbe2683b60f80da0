-- Lock: none; one plain read, by the relay that holds the shard: nobody else adds a blocked key.
SELECT queue
FROM leastlock_outbox_parked_queue
WHERE shard = ? AND blocks = 1
LIMIT ?
