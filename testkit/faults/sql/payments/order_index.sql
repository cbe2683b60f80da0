CREATE INDEX payment_order_key ON payment_order (order_key)
