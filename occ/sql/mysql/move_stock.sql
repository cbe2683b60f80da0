-- Changes rows that this transaction has locked. The JSON is an array of [key, delta]. Right at every isolation level: nobody
-- else can have changed them since they were read. The plan is that of lock_stock.sql, so no other row is touched.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    stock_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]',
    delta     BIGINT PATH '$[1]'
)) AS given
STRAIGHT_JOIN {table} AS stock FORCE INDEX ({index}) ON stock.{key} = given.stock_key
SET stock.{units} = stock.{units} + given.delta
