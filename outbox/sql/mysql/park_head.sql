-- Lock: none; one plain read, by the relay that holds the shard. A queue's first events in their order, as many as take no more bytes
-- together than the last parameter says; one comes whatever it takes. How large they are is read first, and not their values.
SELECT p.id, p.event_id, p.topic, p.`key`, p.value, p.headers, p.`partition`,
       TIMESTAMPDIFF(MICROSECOND, p.created_at, UTC_TIMESTAMP(6)) DIV 1000
FROM (
    SELECT shard, id, SUM(bytes) OVER (ORDER BY id) AS bytes, ROW_NUMBER() OVER (ORDER BY id) AS place
    FROM (
        SELECT shard, id, COALESCE(LENGTH(`key`), 0) + COALESCE(LENGTH(value), 0) + LENGTH(headers) AS bytes
        FROM leastlock_outbox_parked
        WHERE queue = ?
        ORDER BY id
        LIMIT ?
    ) AS first
) AS head
JOIN leastlock_outbox_parked AS p ON p.shard = head.shard AND p.id = head.id
WHERE head.bytes <= ? OR head.place = 1
ORDER BY p.id
