SELECT item, units FROM intake_stock WHERE moves > 0
