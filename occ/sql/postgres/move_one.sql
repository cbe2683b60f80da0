-- A movement of one row that came alone, in one statement and no transaction around it. Takes the row's lock if it is free,
-- and never waits for it: a row that is locked, missing or too low is passed over, and the movement goes the long way.
-- Right at READ COMMITTED: the condition is judged on the row as it is when it is locked. $2 is negative for what is taken.
UPDATE {table} AS stock
SET {units} = stock.{units} + $2::bigint
WHERE stock.{key} = (
    SELECT {key}
    FROM {table}
    WHERE {key} = $1::text AND ($2::bigint >= 0 OR {units} + $2::bigint >= $3::bigint)
    FOR NO KEY UPDATE SKIP LOCKED
)
