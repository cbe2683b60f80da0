INSERT INTO ledger_gate SELECT partition, 0 FROM generate_series(0, $1 - 1) AS partition
