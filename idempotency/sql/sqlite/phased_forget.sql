-- Lock: SQLite's one write lock, which the transaction has from its BEGIN IMMEDIATE.
DELETE FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND state IN ('running', 'held')
