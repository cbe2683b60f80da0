-- Lock: none; one plain read. What operators have asked for, the longest ago first.
SELECT queue, state
FROM leastlock_outbox_parked_queue
WHERE shard = $1::bigint::smallint AND state <> 'parked'
ORDER BY asked_at, queue
LIMIT $2
