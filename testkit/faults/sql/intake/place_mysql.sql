INSERT INTO intake_order (order_key, item, units, sequence) VALUES (?, ?, ?, ?)
