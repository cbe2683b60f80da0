SELECT order_key, item, units, sequence FROM intake_order
