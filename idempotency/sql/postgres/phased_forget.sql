-- Lock: the record's row, which phased_lock.sql has locked in the same transaction; right at every isolation level.
DELETE FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND state IN ('running', 'held')
