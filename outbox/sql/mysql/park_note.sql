-- note.sql with events to park. Lock: the rows of the shards named, in the order of their numbers; then the queues' rows, in the order of
-- their names, so that an operator who takes a queue's last event away does not remove the queue from under the event that is
-- parked now; then the events. One message, as claim.sql. Isolation: READ COMMITTED.
-- A queue that an event is parked *behind* and that is not there any more has been drained since: its event is sent at once. Of a
-- queue's events one that was refused comes first. A row that is there already keeps its place. What is parked is read from the log
-- before it is deleted there.
ROLLBACK;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SELECT own.shard
FROM JSON_TABLE(@leastlock_noted, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS noted
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = noted.shard AND own.epoch = noted.epoch
FOR UPDATE;
INSERT INTO leastlock_outbox_parked_queue (queue, shard, topic, `key`, blocks, state, asked_at)
SELECT parked.queue, event.shard, event.topic, event.`key`, parked.blocks, IF(parked.refused, 'parked', 'retrying'),
       IF(parked.refused, NULL, UTC_TIMESTAMP(6))
FROM JSON_TABLE(@leastlock_parked, '$[*]' COLUMNS (
    shard SMALLINT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    id BIGINT PATH '$[2]',
    queue VARCHAR(32) CHARACTER SET ascii PATH '$[3]',
    blocks TINYINT PATH '$[4]',
    refused TINYINT PATH '$[5]'
)) AS parked
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = parked.shard AND own.epoch = parked.epoch
STRAIGHT_JOIN leastlock_outbox AS event FORCE INDEX (PRIMARY) ON event.shard = parked.shard AND event.id = parked.id
ORDER BY parked.queue, parked.refused DESC
ON DUPLICATE KEY UPDATE queue = leastlock_outbox_parked_queue.queue;
INSERT INTO leastlock_outbox_parked
    (shard, id, event_id, topic, `key`, value, headers, `partition`, created_at, reason, queue, refused_at)
SELECT event.shard, event.id, event.event_id, event.topic, event.`key`, event.value, event.headers, event.`partition`,
       event.created_at, parked.reason, parked.queue, IF(parked.refused, UTC_TIMESTAMP(6), NULL)
FROM JSON_TABLE(@leastlock_parked, '$[*]' COLUMNS (
    shard SMALLINT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    id BIGINT PATH '$[2]',
    queue VARCHAR(32) CHARACTER SET ascii PATH '$[3]',
    refused TINYINT PATH '$[5]',
    reason VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$[6]'
)) AS parked
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = parked.shard AND own.epoch = parked.epoch
STRAIGHT_JOIN leastlock_outbox AS event FORCE INDEX (PRIMARY) ON event.shard = parked.shard AND event.id = parked.id
ON DUPLICATE KEY UPDATE id = leastlock_outbox_parked.id;
DELETE event
FROM JSON_TABLE(@leastlock_noted, '$[*]' COLUMNS (
    shard SMALLINT PATH '$[0]',
    epoch BIGINT PATH '$[1]',
    NESTED PATH '$[2][*]' COLUMNS (id BIGINT PATH '$')
)) AS noted
STRAIGHT_JOIN leastlock_outbox_shard AS own FORCE INDEX (PRIMARY) ON own.shard = noted.shard AND own.epoch = noted.epoch
STRAIGHT_JOIN leastlock_outbox AS event FORCE INDEX (PRIMARY) ON event.shard = noted.shard AND event.id = noted.id;
COMMIT
