-- Takes the exclusive locks of the rows that it deletes, a batch of the oldest, for this one statement, which is its own
-- transaction. Nobody changes a marker that is committed, so it is right at every isolation level.
DELETE FROM leastlock_once
WHERE completed_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
ORDER BY completed_at
LIMIT ?
