-- Lock: none beyond the transaction's. The event that leaves the queue next.
SELECT id, event_id
FROM leastlock_outbox_parked
WHERE queue = $1
ORDER BY id
LIMIT 1
