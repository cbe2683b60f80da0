-- For the mutants: the gate row of a partition.
CREATE TABLE ledger_gate (partition bigint PRIMARY KEY, epoch bigint NOT NULL)
