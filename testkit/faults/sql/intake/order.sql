-- Unique in nothing: a second effect of a key is to be found, not refused.
CREATE TABLE intake_order (order_key varchar(64) NOT NULL, item bigint NOT NULL, units bigint NOT NULL, sequence bigint NOT NULL)
