-- Lock: none; one plain read. What operators have asked for, behind a queue: in turn, so that one which cannot be sent for now holds up no
-- other.
SELECT shard::bigint, queue
FROM leastlock_outbox_parked_queue
WHERE shard = ANY ($1::bigint[]) AND state <> 'parked' AND queue > $2
ORDER BY queue
LIMIT $3
