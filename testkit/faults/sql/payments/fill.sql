INSERT INTO payment_stock SELECT item, $1, 0 FROM generate_series(0::bigint, 4999) AS item
