-- Unique in nothing: a second effect of a key is to be found, not refused.
CREATE TABLE payment_order (order_key text NOT NULL, item bigint NOT NULL, units bigint NOT NULL, state text NOT NULL)
