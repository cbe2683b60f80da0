SELECT item, units FROM payment_stock WHERE sales > 0
