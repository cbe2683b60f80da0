INSERT INTO intake_order (order_key, item, units, sequence) VALUES ($1, $2, $3, $4)
