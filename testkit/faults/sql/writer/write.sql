-- Lock: the shelf's row, until the transaction ends (SQLite: the one write lock), so that places are given in the order of the
-- commits. Right at every isolation level: an UPDATE sees the row as it is, or fails.
UPDATE shelf SET batches = batches + 1 WHERE id = 1
