-- Lock: none. What claim.sql works with: a message of several statements takes no parameters. The shards are a JSON array.
SET @leastlock_owner = ?, @leastlock_lease_ms = ?, @leastlock_among = ?
