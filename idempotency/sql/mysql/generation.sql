-- Lock: none; the row is this transaction's own since the claim, so every isolation level shows it as it is.
SELECT generation FROM leastlock_idempotency WHERE scope = ? AND idempotency_key = ?
