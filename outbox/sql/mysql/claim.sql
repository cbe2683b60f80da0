-- Lock: the rows of free shards; a shard that another relay is claiming, or noting at, is skipped. One message, so that a
-- process that stops holds no lock: the server goes on to the COMMIT without it. Isolation: READ COMMITTED, so that rows that
-- are not free are not kept locked. Whether a lease is over is judged by the database's clock. The epoch fences the previous
-- owner: it deletes nothing any more.
-- Free for this owner is also what bears its name though it does not hold it: it lost the answer of an earlier claim, or gave
-- the shard up. At most {most} shards.
ROLLBACK;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SELECT JSON_ARRAYAGG(free.shard) INTO @leastlock_free
FROM (
    SELECT shard
    FROM leastlock_outbox_shard
    WHERE lease_until IS NULL
       OR lease_until <= UTC_TIMESTAMP(6)
       OR (owner = @leastlock_owner AND NOT JSON_CONTAINS(@leastlock_held, CAST(shard AS CHAR)))
    ORDER BY shard
    LIMIT {most}
    FOR UPDATE SKIP LOCKED
) AS free;
UPDATE leastlock_outbox_shard
SET owner = @leastlock_owner, lease_until = UTC_TIMESTAMP(6) + INTERVAL @leastlock_lease_ms * 1000 MICROSECOND, epoch = epoch + 1
WHERE JSON_CONTAINS(@leastlock_free, CAST(shard AS CHAR));
SELECT shard, epoch
FROM leastlock_outbox_shard
WHERE JSON_CONTAINS(@leastlock_free, CAST(shard AS CHAR));
COMMIT
