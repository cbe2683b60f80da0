INSERT INTO intake_stock SELECT item, $1, 0 FROM generate_series(0::bigint, 7999) AS item
