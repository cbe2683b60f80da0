INSERT INTO payment_order VALUES ($1, $2, $3, 'reserved')
