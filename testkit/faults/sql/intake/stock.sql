CREATE TABLE intake_stock (item bigint PRIMARY KEY, units bigint NOT NULL, moves bigint NOT NULL)
