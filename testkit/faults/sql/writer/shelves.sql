-- What is protected: one shelf, and how many batches were put on it.
CREATE TABLE shelf (id BIGINT NOT NULL PRIMARY KEY, batches BIGINT NOT NULL)
