-- Lock: none; one plain read. What operators have asked for in these shards, a JSON array, behind a queue: in turn, so that one which
-- cannot be sent for now holds up no other.
SELECT q.shard, q.queue
FROM JSON_TABLE(?, '$[*]' COLUMNS (shard SMALLINT PATH '$')) AS wanted
STRAIGHT_JOIN leastlock_outbox_parked_queue AS q FORCE INDEX (leastlock_outbox_parked_queue_asked)
    ON q.shard = wanted.shard AND q.state IN ('retrying', 'releasing') AND q.queue > CAST(? AS BINARY)
ORDER BY q.queue
LIMIT ?
