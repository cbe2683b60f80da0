-- MariaDB has no aborted state and no deferred constraint, so what was done is undone at once, and a transaction that
-- cannot write stands in for it until its COMMIT or ROLLBACK: without one, the next statements would each commit by
-- themselves. Releases all locks, takes none; right at every isolation level.
ROLLBACK; START TRANSACTION READ ONLY
