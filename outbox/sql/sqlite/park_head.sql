-- Lock: none; one plain read, by the relay that holds the shard. A queue's first events in their order, as many as take no more than $3
-- bytes together; one comes whatever it takes. How large they are is read first, and not their values.
SELECT p.id, p.event_id, p.topic, p.key, p.value, p.headers, p.partition,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - p.created_at
FROM (
    SELECT shard, id, sum(bytes) OVER (ORDER BY id) AS bytes, row_number() OVER (ORDER BY id) AS place
    FROM (
        SELECT shard, id, coalesce(length(key), 0) + coalesce(length(value), 0) + length(CAST(headers AS BLOB)) AS bytes
        FROM leastlock_outbox_parked
        WHERE queue = $1
        ORDER BY id
        LIMIT $2
    ) AS first
) AS head
JOIN leastlock_outbox_parked AS p ON p.shard = head.shard AND p.id = head.id
WHERE head.bytes <= $3 OR head.place = 1
ORDER BY p.id
