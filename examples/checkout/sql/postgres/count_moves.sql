-- Rows that the counter has locked in this transaction, so it waits for nobody; right at READ COMMITTED for the same reason. The
-- number of moves that a row has after it is that of the batch's last move of its code.
UPDATE shop_stock AS stock
SET moves = stock.moves + change.moves,
    units_out = stock.units_out + change.units_out,
    units_back = stock.units_back + change.units_back
FROM (
    SELECT value ->> 0 AS stock_code,
           (value ->> 1)::bigint AS moves,
           (value ->> 2)::bigint AS units_out,
           (value ->> 3)::bigint AS units_back
    FROM json_array_elements($1::text::json)
) AS change
WHERE stock.stock_code = change.stock_code
RETURNING stock.stock_code::text, stock.moves
