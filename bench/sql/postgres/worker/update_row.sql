-- What the handlers of `row` do, by hand and in the worker.
-- Lock: the row of the key, until the transaction ends. READ COMMITTED: one row, changed in one statement.
UPDATE bench_row SET moves = moves + 1 WHERE row_key = $1
