-- Lock: none; one plain read. Up to which queue the next step of a topic goes: NULL if there is none behind the last step's.
SELECT max(queue)
FROM (
    SELECT queue
    FROM leastlock_outbox_parked_queue
    WHERE topic = ? AND state = 'parked' AND queue > ?
    ORDER BY queue
    LIMIT ?
) AS step
