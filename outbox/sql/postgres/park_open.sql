-- Lock: the queue's row, which is held already (parked_lock.sql), so no event can come into the queue meanwhile. One row: the queue
-- was empty, and its key is free.
DELETE FROM leastlock_outbox_parked_queue AS q
WHERE q.queue = $1 AND NOT EXISTS (SELECT FROM leastlock_outbox_parked AS p WHERE p.queue = q.queue)
