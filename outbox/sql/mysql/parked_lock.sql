-- Lock: the queue's row, to the end of the transaction; whoever moves events of a queue, relay or operator, holds it. Isolation: READ
-- COMMITTED: the state is read as it is once locked, and the next statement sees the events as they are then.
SELECT state, topic, `key`
FROM leastlock_outbox_parked_queue
WHERE queue = ?
FOR UPDATE
