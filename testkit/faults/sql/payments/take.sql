-- Locks the row of the item until the end of the step. READ COMMITTED: the condition is judged on the row as it is then.
UPDATE payment_stock SET units = units - $1, sales = sales + 1 WHERE item = $2 AND units >= $1
