-- Lock: the record's row, waited for as in phased_claim.sql: the owner may be committing a local step just now. READ
-- COMMITTED: after the wait the condition is judged on the row as it then is, so of two claimants one finds the lease over.
-- From here on the generation refuses every write of the owner before.
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', '1s', true)
)
UPDATE leastlock_idempotency
SET owner_token = $1, generation = generation + 1,
    lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
FROM limits
WHERE scope = $3 AND idempotency_key = $4 AND generation = $5 AND state = 'running' AND lease_until <= clock_timestamp()
