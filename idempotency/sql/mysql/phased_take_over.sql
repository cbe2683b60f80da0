-- Lock: the record's row, waited for as in phased_claim.sql: the owner may be committing a local step just now. After the wait
-- the condition is judged on the row as it then is, so of two claimants one finds the lease over.
-- From here on the generation refuses every write of the owner before.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
UPDATE leastlock_idempotency
SET owner_token = ?, generation = generation + 1, lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state = 'running' AND lease_until <= UTC_TIMESTAMP(6)
