-- Lock: none; one plain read. Up to which queue the next step of a topic goes: NULL if there is none behind the last step's.
SELECT max(queue)
FROM (
    SELECT queue
    FROM leastlock_outbox_parked_queue
    WHERE topic = $1 AND state = 'parked' AND queue > $2
    ORDER BY queue
    LIMIT $3
) AS step
