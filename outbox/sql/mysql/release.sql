-- Lock: the rows of this owner's shards, for one statement. Conditional on the owner, which is new for each run of a relay, so it
-- frees nothing of anybody else's.
UPDATE leastlock_outbox_shard
SET owner = NULL, lease_until = NULL
WHERE owner = ?
