-- What an owner has left behind.
SELECT idempotency_key::text FROM leastlock_idempotency WHERE state <> 'completed' AND lease_until < clock_timestamp() ORDER BY lease_until LIMIT 10
