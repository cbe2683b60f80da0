-- Lock: the row changed; its queue's row is held (parked_lock.sql). To another queue, if it is to be parked alone from now on.
UPDATE leastlock_outbox_parked
SET attempts = attempts + 1, refused_at = UTC_TIMESTAMP(6), reason = ?, queue = ?
WHERE shard = ? AND id = ?
