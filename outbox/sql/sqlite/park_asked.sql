-- Lock: none; one plain read. What operators have asked for, behind a queue: in turn, so that one which cannot be sent for now holds up no
-- other. There is one shard.
SELECT shard, queue
FROM leastlock_outbox_parked_queue
WHERE state <> 'parked' AND queue > $1
ORDER BY queue
LIMIT $2
