-- Lock: the rows of free shards; a shard that another relay is claiming, or noting at, is skipped. One message, so that a
-- process that stops holds no lock: the server goes on to the COMMIT without it. Isolation: READ COMMITTED, so that rows that
-- are not free are not kept locked. Whether a lease is over is judged by the database's clock. The epoch fences the previous
-- owner: it deletes nothing any more.
-- At most {most} of the shards named, none of which the owner holds. Free for it is also what bears its name: it lost the answer
-- of an earlier claim, or gave the shard up.
ROLLBACK;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SELECT JSON_ARRAYAGG(free.shard) INTO @leastlock_free
FROM (
    SELECT shard
    FROM leastlock_outbox_shard
    WHERE JSON_CONTAINS(@leastlock_among, CAST(shard AS CHAR))
      AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(6) OR owner = @leastlock_owner)
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
