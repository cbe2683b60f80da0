SELECT idempotency_key::text, state::text FROM leastlock_idempotency
