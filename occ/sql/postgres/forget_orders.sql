-- Locks the rows that it deletes, and passes over those that somebody else has locked. Right at every isolation level.
DELETE FROM leastlock_occ_order
WHERE order_id IN (
    SELECT order_id
    FROM leastlock_occ_order
    WHERE created_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
)
