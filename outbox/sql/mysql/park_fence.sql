-- Lock: the shard's row, to the end of the transaction: no other relay can claim it meanwhile. Isolation: READ COMMITTED. No row: the
-- shard is another relay's now.
SELECT shard
FROM leastlock_outbox_shard
WHERE shard = ? AND epoch = ?
FOR UPDATE
