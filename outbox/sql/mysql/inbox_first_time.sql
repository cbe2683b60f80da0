-- Lock: the new row, exclusively; whoever marks the same event waits for this transaction to end, as innodb_lock_wait_timeout
-- allows. 1062: one is there, committed, so it is a repeat; it leaves a shared lock on that row. Never INSERT IGNORE. Right at
-- every isolation level: an insert meets what is there, not what a snapshot shows. Of several that waited for a transaction which
-- rolled back, all but one are ended as deadlocks (1213), which is retryable, never a first.
INSERT INTO leastlock_inbox (consumer, event_id)
VALUES (?, UNHEX(REPLACE(?, '-', '')))
