CREATE TABLE item (write_id VARCHAR(100) NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (write_id, number))
