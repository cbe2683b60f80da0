-- For the mutants: finished offsets. Unique in nothing.
CREATE TABLE ledger_done (partition bigint NOT NULL, record_offset bigint NOT NULL)
