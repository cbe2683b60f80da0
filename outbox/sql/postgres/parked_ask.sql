-- Lock: the queue's row, which is held already (parked_lock.sql). The relay that holds the shard finds it.
UPDATE leastlock_outbox_parked_queue
SET state = $1, asked_at = clock_timestamp()
WHERE queue = $2
