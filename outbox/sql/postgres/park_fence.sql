-- Lock: the shard's row, to the end of the transaction: no other relay can claim it meanwhile. Isolation: READ COMMITTED: after
-- waiting for a claimant the epoch is judged on the row as it then is. No row: the shard is another relay's now.
SELECT shard::bigint
FROM leastlock_outbox_shard
WHERE shard = $1::bigint::smallint AND epoch = $2
FOR NO KEY UPDATE
