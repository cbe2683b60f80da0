-- Changes rows as move_stock.sql does, and inserts the order ids with their answers, in the order of the ids, so that two of
-- these never wait for each other in a circle. Each id's unique key makes this wait for another transaction that inserts
-- it; if that one commits, fewer ids are stored than were given, and the caller must roll back.
WITH moved AS (
    UPDATE {table} AS stock
    SET {units} = stock.{units} + change.delta
    FROM unnest($1::text[], $2::bigint[]) AS change (stock_key, delta)
    WHERE stock.{key} = change.stock_key
    RETURNING 1
),
stored AS (
    INSERT INTO leastlock_occ_order (order_id, operation_digest, answer)
    SELECT * FROM unnest($3::text[], $4::bigint[], $5::text[])
    ON CONFLICT (order_id) DO NOTHING
    RETURNING 1
)
SELECT (SELECT count(*) FROM moved),
       (SELECT count(*) FROM stored),
       pg_current_xact_id()::text || '@' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
