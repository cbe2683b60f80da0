-- What the batch handler of `row` does: a row for each key, by as much as it has records in the batch.
-- Lock: the rows of the keys, until the transaction ends. Two batches that run at the same time have no key in common, so their
-- order does not matter. READ COMMITTED: each row is changed once.
UPDATE bench_row AS target
   SET moves = target.moves + moved.moves
  FROM unnest($1::text[], $2::bigint[]) AS moved (row_key, moves)
 WHERE target.row_key = moved.row_key
