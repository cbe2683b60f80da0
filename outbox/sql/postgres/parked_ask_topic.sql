-- Lock: the queues' rows, in the order of their names, as every statement that locks several does. Isolation: READ COMMITTED: a
-- queue that a relay or another operator changed meanwhile is judged as it is once locked. Behind the last step's queue: one that
-- was refused again since is not asked for again.
UPDATE leastlock_outbox_parked_queue AS q
SET state = 'retrying', asked_at = clock_timestamp()
FROM (
    SELECT queue
    FROM leastlock_outbox_parked_queue
    WHERE topic = $1 AND state = 'parked' AND queue > $2 AND queue <= $3
    ORDER BY queue
    FOR UPDATE
) AS asked
WHERE q.queue = asked.queue
