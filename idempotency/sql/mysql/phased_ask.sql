-- Lock: the record's row, for this one statement: of two reconcilers one finds the pause not begun.
UPDATE leastlock_idempotency
SET asks = asks + 1, ask_after = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state IN ('running', 'held')
  AND (ask_after IS NULL OR ask_after <= UTC_TIMESTAMP(6))
