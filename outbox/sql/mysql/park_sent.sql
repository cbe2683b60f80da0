-- Lock: the rows removed, each by its primary key; their queue's row is held (parked_lock.sql). By their ids, a JSON array, not up to
-- one: a lower id may have been parked since, by a writer that did not take turns.
DELETE parked
FROM JSON_TABLE(?, '$[*]' COLUMNS (shard SMALLINT PATH '$[0]', id BIGINT PATH '$[1]')) AS sent
STRAIGHT_JOIN leastlock_outbox_parked AS parked FORCE INDEX (PRIMARY) ON parked.shard = sent.shard AND parked.id = sent.id
