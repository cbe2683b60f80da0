-- Lock: none. What renew.sql works with: a message of several statements takes no parameters. The shards are a JSON array of
-- [shard, epoch], sorted.
SET @leastlock_lease_ms = ?, @leastlock_held = ?
