-- Takes the marker's unique key until the work's transaction ends, before anything else is done in it. Who has marked the period
-- already is waited for, up to innodb_lock_wait_timeout; 1062 is one that has committed. Never INSERT IGNORE. Right at every
-- isolation level.
INSERT INTO leastlock_once (job, period, owner_token, began_at, completed_at)
VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))
