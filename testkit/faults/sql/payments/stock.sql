CREATE TABLE payment_stock (item bigint PRIMARY KEY, units bigint NOT NULL, sales bigint NOT NULL)
