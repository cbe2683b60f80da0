-- Lock: the record's row, for this one statement. READ COMMITTED: of two reconcilers one finds the pause not begun.
UPDATE leastlock_idempotency
SET asks = asks + 1,
    ask_after = clock_timestamp() + $1::bigint * interval '1 millisecond'
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND state IN ('running', 'held')
  AND (ask_after IS NULL OR ask_after <= clock_timestamp())
