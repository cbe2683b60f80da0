-- Step two of a seal. Takes the guard row's exclusive lock for this one statement, which is its own transaction, and so waits
-- until every transaction that has share-locked it by a check has ended, for whole seconds at most (MySQL has the session's
-- bound only). Right at every isolation level, as in step one.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
UPDATE leastlock_fence
SET generation = ?, owner_token = ?, sealed_at = UTC_TIMESTAMP(6)
WHERE resource = ? AND (generation < ? OR (generation = ? AND owner_token = ?))
