-- Lock: none. Right at every isolation level: the messages belong to the caller's transaction, and are decoded only if
-- it commits; those of a savepoint that is rolled back never are. They are written in the order of the array. Without a
-- slot that can be read they would be lost, so then none is written and the count is 0.
SELECT count(pg_logical_emit_message(true, $1, event.content))
FROM (
    SELECT content
    FROM unnest($2::bytea[]) WITH ORDINALITY AS given (content, place)
    ORDER BY place
) AS event
WHERE EXISTS (
    SELECT
    FROM pg_replication_slots
    WHERE slot_name = $1 AND database = current_database() AND wal_status <> 'lost'
)
