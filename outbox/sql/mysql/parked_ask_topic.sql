-- Lock: the queues' rows, in the order of their names, as every statement that locks several does: along the primary key. Isolation:
-- READ COMMITTED, so that rows that are not changed are not kept locked. Behind the last step's queue: one that was refused again
-- since is not asked for again.
UPDATE leastlock_outbox_parked_queue FORCE INDEX (PRIMARY)
SET state = 'retrying', asked_at = UTC_TIMESTAMP(6)
WHERE topic = ? AND state = 'parked' AND queue > ? AND queue <= ?
ORDER BY queue
