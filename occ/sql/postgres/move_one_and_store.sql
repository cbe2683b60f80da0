-- A movement as in move_one.sql, with its order id and answer in the same statement. An id that is there already moves
-- nothing. One that comes in at the same time is waited for, while the row is locked, as long as the connection's lock_timeout
-- says: if it commits, the unique key fails this statement as a whole; either way the movement goes the long way.
WITH moved AS (
    UPDATE {table} AS stock
    SET {units} = stock.{units} + $2::bigint
    WHERE stock.{key} = (
        SELECT {key}
        FROM {table}
        WHERE {key} = $1::text AND ($2::bigint >= 0 OR {units} + $2::bigint >= $3::bigint)
          AND NOT EXISTS (SELECT 1 FROM leastlock_occ_order WHERE order_id = $4::text OFFSET 0)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING 1
)
INSERT INTO leastlock_occ_order (order_id, operation_digest, answer)
SELECT $4::text, $5::bigint, 'applied' FROM moved
