-- Lock: the queue's row, which is held already (parked_lock.sql). The relay that holds the shard finds it.
UPDATE leastlock_outbox_parked_queue
SET state = ?, asked_at = UTC_TIMESTAMP(6)
WHERE queue = ?
