-- Inside the write transaction that has read the rows: nothing else is written before it ends.
UPDATE shop_stock
SET moves = moves + change.count,
    units_out = units_out + change.out,
    units_back = units_back + change.back
FROM (
    SELECT json_extract(value, '$[0]') AS code,
           json_extract(value, '$[1]') AS count,
           json_extract(value, '$[2]') AS out,
           json_extract(value, '$[3]') AS back
    FROM json_each($1)
) AS change
WHERE shop_stock.stock_code = change.code
RETURNING stock_code, moves
