-- The first seal of a resource, step two. 1062 is a row that came first. Never INSERT IGNORE. Right at every isolation level.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
INSERT INTO leastlock_fence (generation, owner_token, resource, sealed_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))
