-- Lock: the rows of the shards named, in the order of their numbers, and the published events, each by its whole primary key.
-- One message, as claim.sql. Isolation: READ COMMITTED, so that no gap is locked and no appender waits; nor does this wait for
-- one, since it touches no row but those. A shard that is not answered is another relay's now, and of it nothing is deleted.
-- Never "every id up to the last": a lower one may have been committed since the page was read.
ROLLBACK;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SELECT own.shard
FROM JSON_TABLE(@leastlock_noted, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS noted
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = noted.shard AND own.epoch = noted.epoch
FOR UPDATE;
DELETE event
FROM JSON_TABLE(@leastlock_noted, '$[*]' COLUMNS (
    shard SMALLINT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    NESTED PATH '$[2][*]' COLUMNS (id BIGINT PATH '$')
)) AS noted
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = noted.shard AND own.epoch = noted.epoch
STRAIGHT_JOIN leastlock_outbox AS event FORCE INDEX (PRIMARY) ON event.shard = noted.shard AND event.id = noted.id;
COMMIT
