-- Lock: SQLite's one write lock for this one statement. Conditional on the owner, which is new for each run of a relay.
UPDATE leastlock_outbox_shard
SET owner = NULL, lease_until = NULL
WHERE owner = $1
