-- For the mutant whose claims have an age and no generation.
CREATE TABLE intake_claim (order_key varchar(64) PRIMARY KEY, since_ms bigint NOT NULL, receipt varchar(200))
