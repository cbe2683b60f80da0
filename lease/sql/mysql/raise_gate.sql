-- Step one of a seal. Takes the gate row's exclusive lock for this one statement, which is its own transaction; nobody
-- share-locks it, so it waits for other seals only. Right at every isolation level: an UPDATE sees the row as it is. The same
-- generation and owner again is a seal that goes on after a lost reply. Rows that are found count, changed or not.
/*M!100600 SET STATEMENT innodb_lock_wait_timeout = @leastlock_wait FOR */
UPDATE leastlock_fence_gate
SET generation = ?, owner_token = ?, raised_at = UTC_TIMESTAMP(6)
WHERE resource = ? AND (generation < ? OR (generation = ? AND owner_token = ?))
