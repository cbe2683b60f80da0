-- What is protected, and how often it was written.
CREATE TABLE fault_door (door BIGINT PRIMARY KEY, writes BIGINT NOT NULL)
