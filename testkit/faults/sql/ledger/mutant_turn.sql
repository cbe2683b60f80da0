-- For the mutants: the guard row of a partition.
CREATE TABLE ledger_turn (partition bigint PRIMARY KEY, epoch bigint NOT NULL, next_offset bigint NOT NULL)
