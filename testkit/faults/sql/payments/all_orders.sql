SELECT order_key, item, units, state FROM payment_order
