-- Lock: none; one plain read, by the relay that holds the shard. Which of these keys, a JSON array, are blocked.
SELECT q.queue
FROM JSON_TABLE(?, '$[*]' COLUMNS (queue VARCHAR(32) CHARACTER SET ascii PATH '$')) AS wanted
STRAIGHT_JOIN leastlock_outbox_parked_queue AS q FORCE INDEX (PRIMARY) ON q.queue = CAST(wanted.queue AS BINARY)
WHERE q.blocks = 1
