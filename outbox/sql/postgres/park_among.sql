-- Lock: none; one plain read, by the relay that holds the shard. Which of these keys are blocked.
SELECT queue
FROM leastlock_outbox_parked_queue
WHERE queue = ANY ($1::text[]) AND blocks
