-- Lock: the record's row, which phased_lock.sql has locked in the same transaction; right at every isolation level.
DELETE FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state IN ('running', 'held')
