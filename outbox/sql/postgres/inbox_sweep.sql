-- Lock: the rows it deletes; rows that somebody has locked are skipped, not waited for. Isolation: READ COMMITTED.
DELETE FROM leastlock_inbox
WHERE (consumer, event_id) IN (
    SELECT consumer, event_id
    FROM leastlock_inbox
    WHERE seen_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY seen_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
