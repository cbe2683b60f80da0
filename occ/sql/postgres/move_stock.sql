-- Changes rows that this transaction has locked, and names it. Right at every isolation level: nobody else can have changed
-- them since they were read.
WITH moved AS (
    UPDATE {table} AS stock
    SET {units} = stock.{units} + change.delta
    FROM unnest($1::text[], $2::bigint[]) AS change (stock_key, delta)
    WHERE stock.{key} = change.stock_key
    RETURNING 1
)
SELECT count(*),
       0::bigint,
       pg_current_xact_id()::text || '@' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
FROM moved
