INSERT INTO ledger_turn SELECT partition, 0, 0 FROM generate_series(0, $1 - 1) AS partition
