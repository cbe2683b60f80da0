-- A batch in one statement and no transaction around it: all of it or nothing. Takes the locks of the rows if they are free,
-- and never waits for one: if a row is locked, missing, or outside of the bounds within which every movement of the batch can
-- be met in its turn, nothing is changed, and the batch goes the long way. Locks before it judges, so it is right at READ
-- COMMITTED: the bounds are compared with the row as it is when it is locked. A trigger or a policy that suppresses some of the
-- changes fails the statement by a division by zero, so that none is kept.
WITH locked AS MATERIALIZED (
    SELECT stock.stock_key, change.delta, stock.units BETWEEN change.least AND change.most AS is_met
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS change (stock_key, delta, least, most)
    CROSS JOIN LATERAL (
        SELECT {key} AS stock_key, {units}::bigint AS units
        FROM {table}
        WHERE {key} = change.stock_key
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS stock
),
moved AS (
    UPDATE {table} AS stock
    SET {units} = stock.{units} + locked.delta
    FROM locked
    WHERE stock.{key} = locked.stock_key
      AND (SELECT count(*) = cardinality($1::text[]) AND bool_and(is_met) FROM locked)
    RETURNING 1
)
SELECT count(*) / (count(*) IN (0, cardinality($1::text[])))::int FROM moved
