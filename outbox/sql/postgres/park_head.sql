-- Lock: none; one plain read, by the relay that holds the shard. A queue's first events in their order, as many as take no more than $3
-- bytes together; one comes whatever it takes. How large they are is read first, from few of them ($2), and not their values.
SELECT p.id, p.event_id::text, p.topic, p.key, p.value, p.headers, p.partition::bigint,
       (extract(epoch FROM clock_timestamp() - p.created_at) * 1000)::bigint
FROM (
    SELECT shard, id, sum(bytes) OVER (ORDER BY id) AS bytes, row_number() OVER (ORDER BY id) AS place
    FROM (
        SELECT shard, id, coalesce(octet_length(key), 0)::bigint + coalesce(octet_length(value), 0) + octet_length(headers) AS bytes
        FROM leastlock_outbox_parked
        WHERE queue = $1
        ORDER BY id
        LIMIT $2
    ) AS first
) AS head
JOIN leastlock_outbox_parked AS p ON p.shard = head.shard AND p.id = head.id
WHERE head.bytes <= $3 OR head.place = 1
ORDER BY p.id
