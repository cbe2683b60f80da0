-- Lock: the rows removed, whose queue's row is held (parked_lock.sql). By their ids, not up to one: a lower id may have been parked
-- since, by a writer that did not take turns.
DELETE FROM leastlock_outbox_parked
WHERE shard = $1::bigint::smallint AND id = ANY ($2::bigint[])
