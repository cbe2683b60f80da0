SELECT coalesce(receipt, '') FROM intake_claim WHERE order_key = $1
