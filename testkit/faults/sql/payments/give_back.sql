UPDATE payment_stock SET units = units + $1 WHERE item = $2
