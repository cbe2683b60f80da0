-- Lock: the rows of the shards held, in the order of their numbers (as note.sql does, so that the two never deadlock). One
-- message, as claim.sql. Isolation: READ COMMITTED: the epoch is judged on the row as it is once locked. Only what the relay
-- knows that it holds is renewed: a shard of its name that it lost sight of must expire. Nor is a lease that is over: another
-- relay may be about to take it; so what still runs at the SELECT was renewed.
ROLLBACK;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
UPDATE JSON_TABLE(@leastlock_held, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS held
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = held.shard AND own.epoch = held.epoch
SET own.lease_until = UTC_TIMESTAMP(6) + INTERVAL @leastlock_lease_ms * 1000 MICROSECOND
WHERE own.lease_until > UTC_TIMESTAMP(6);
SELECT own.shard
FROM JSON_TABLE(@leastlock_held, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS held
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = held.shard AND own.epoch = held.epoch
WHERE own.lease_until > UTC_TIMESTAMP(6);
COMMIT
