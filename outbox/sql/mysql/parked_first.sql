-- Lock: none; the queue's row is held (parked_lock.sql). The event that leaves the queue next.
SELECT id, event_id
FROM leastlock_outbox_parked
WHERE queue = ?
ORDER BY id
LIMIT 1
