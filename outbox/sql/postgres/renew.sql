-- Lock: the rows of this owner's shards, for one statement. Isolation: READ COMMITTED. A lease that is over is not
-- renewed: another relay may be about to take it.
UPDATE leastlock_outbox_shard
SET lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
WHERE owner = $1 AND lease_until > clock_timestamp()
