-- Lock: none; one plain read, by the relay that holds the shard. Whether this key is blocked.
SELECT queue
FROM leastlock_outbox_parked_queue
WHERE queue = $1 AND blocks
