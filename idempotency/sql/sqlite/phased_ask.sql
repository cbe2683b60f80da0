-- Lock: SQLite's one write lock, for this one statement: of two reconcilers one finds the pause not begun.
UPDATE leastlock_idempotency
SET asks = asks + 1,
    ask_after = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1
WHERE scope = $2 AND idempotency_key = $3 AND generation = $4 AND state IN ('running', 'held')
  AND (ask_after IS NULL OR ask_after <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
