-- Lock: the queue's row, which is held already (parked_lock.sql), so no event can come into the queue meanwhile. One row: the queue
-- was empty, and its key is free.
DELETE q
FROM leastlock_outbox_parked_queue AS q
LEFT JOIN leastlock_outbox_parked AS p ON p.queue = q.queue
WHERE q.queue = ? AND p.queue IS NULL
