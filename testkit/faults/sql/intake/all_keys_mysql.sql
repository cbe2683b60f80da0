SELECT CAST(idempotency_key AS char), CAST(state AS char) FROM leastlock_idempotency
