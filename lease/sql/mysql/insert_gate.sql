-- The first seal of a resource, step one. 1062 is a row that came first. Never INSERT IGNORE. Right at every isolation level.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
INSERT INTO leastlock_fence_gate (generation, owner_token, resource, raised_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))
