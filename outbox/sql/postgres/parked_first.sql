-- Lock: none; the queue's row is held (parked_lock.sql). The event that leaves the queue next.
SELECT id, event_id::text
FROM leastlock_outbox_parked
WHERE queue = $1
ORDER BY id
LIMIT 1
