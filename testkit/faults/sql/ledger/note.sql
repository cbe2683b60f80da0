-- Under the lock of move.sql. The guard row is share-locked by the handler's transaction, so it names the epoch under which this commits.
INSERT INTO ledger_effect (partition, account, record_offset, epoch, writer)
SELECT $1, $2, $3, guard.epoch, $4 FROM leastlock_partition AS guard WHERE guard.group_id = $5 AND guard.topic = $5 AND guard.partition = $1::integer
