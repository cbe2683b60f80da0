-- Lock: the rows of the shards named, a sorted JSON array of [shard, epoch], in that order (as renew.sql does), for one statement.
-- Right at every isolation level: the epoch is judged on the row as it is once locked, so a shard that another relay holds by now
-- stays with it.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS held
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = held.shard AND own.epoch = held.epoch
SET own.owner = NULL, own.lease_until = NULL
