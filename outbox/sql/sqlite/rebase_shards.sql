-- Lock: SQLite's one write lock, held by the transaction. Which of the rows had been published cannot be told any more, since their ids are
-- given a second time: all are.
UPDATE leastlock_outbox_shard
SET last_id = 0, epoch = epoch + 1, owner = NULL, lease_until = NULL
