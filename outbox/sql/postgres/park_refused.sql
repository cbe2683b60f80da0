-- Lock: the row changed; its queue's row is held (parked_lock.sql). To another queue, if it is to be parked alone from now on.
UPDATE leastlock_outbox_parked
SET attempts = attempts + 1, refused_at = clock_timestamp(), reason = $3, queue = $4
WHERE shard = $1::bigint::smallint AND id = $2
