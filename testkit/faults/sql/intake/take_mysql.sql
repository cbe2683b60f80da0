-- As take.sql.
UPDATE intake_stock SET units = units - ?, moves = moves + 1 WHERE item = ? AND units >= ?
