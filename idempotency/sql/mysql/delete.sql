-- Lock: the record's row, which the sweep's read has locked already, at READ COMMITTED.
DELETE FROM leastlock_idempotency WHERE scope = ? AND idempotency_key = ?
