-- The effect of a record in the soak, with everything that tells afterwards whether it was to happen.
-- Lock: the account's row, until the transaction ends, so `before.last` is what the effect before this one has left. The guard
-- row is only read: in a handler's transaction it is share-locked, so it names the owner under which this commits.
-- READ COMMITTED. It is unique in nothing, so that a second effect is found and not refused.
WITH before AS MATERIALIZED (
    SELECT last FROM soak_account WHERE account = $1 FOR UPDATE
), moved AS (
    UPDATE soak_account SET last = $2 WHERE account = $1 AND EXISTS (SELECT FROM before)
)
INSERT INTO soak_effect (account, sequence, previous, process, partition, record_offset, epoch, owner)
SELECT $1, $2, before.last, $3, $4::integer, $5, guard.epoch, guard.owner
  FROM before, leastlock_partition AS guard
 WHERE guard.group_id = $6 AND guard.topic = $7 AND guard.partition = $4::integer
