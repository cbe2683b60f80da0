-- Locks the rows of a batch one after the other in the order of the JSON array, which is sorted by bytes, so that two of these
-- never wait for each other in a circle. STRAIGHT_JOIN and FORCE INDEX have each key looked up in its turn, whatever the
-- optimizer believes of the table's size: a scan would lock, and wait for, rows that nobody asked for. Right at READ COMMITTED:
-- no gap is locked, and what another transaction changed while this waited is read as it is then.
SELECT stock.{key}, CAST(stock.{units} AS SIGNED)
FROM JSON_TABLE(?, '$[*]' COLUMNS (stock_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS wanted
STRAIGHT_JOIN {table} AS stock FORCE INDEX ({index}) ON stock.{key} = wanted.stock_key
FOR UPDATE
