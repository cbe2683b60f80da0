-- Lock: none; plain reads of one snapshot. Whatever is in the log is not published, or was within the last moments: up to ten
-- thousand of these are counted along the index of the ids, and where there are more, the ids tell how many. The table's counter
-- tells how many there ever were, since the highest may be deleted. The rows of an open transaction cannot be seen, nor can it be told
-- which transactions have appended.
SELECT NULL,
       (SELECT TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6)) DIV 1000
        FROM leastlock_outbox FORCE INDEX (leastlock_outbox_id)
        ORDER BY id
        LIMIT 1),
       IF(first.counted < 10000, first.counted, GREATEST(10000, last.id - first.id + 1)),
       CAST(first.counted < 10000 AS SIGNED),
       (SELECT TIMESTAMPDIFF(MICROSECOND, min(parked_at), UTC_TIMESTAMP(6)) DIV 1000 FROM leastlock_outbox_parked),
       (SELECT count(*) FROM leastlock_outbox_parked),
       GREATEST(last.id, CAST(COALESCE((
           SELECT AUTO_INCREMENT
           FROM information_schema.TABLES
           WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'leastlock_outbox'
       ), 1) AS SIGNED) - 1)
FROM (
    SELECT count(*) AS counted, min(id) AS id
    FROM (SELECT id FROM leastlock_outbox FORCE INDEX (leastlock_outbox_id) ORDER BY id LIMIT 10000) AS some
) AS first
CROSS JOIN (SELECT COALESCE(max(id), 0) AS id FROM leastlock_outbox) AS last
