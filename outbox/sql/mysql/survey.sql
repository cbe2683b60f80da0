-- Lock: the relay's own row; then, in a transaction of their own so that nobody waits for both, the rows of relays that are gone,
-- but none that another relay is at work on. One message, so that a process that stops holds no lock. Isolation: READ COMMITTED, so
-- that a row that is looked at in passing is not kept locked.
-- Says that the relay is there, and answers who else is and who holds which shard; what is over by the database's clock counts
-- for nothing.
ROLLBACK;
START TRANSACTION;
INSERT INTO leastlock_outbox_relay (owner, seen_until)
VALUES (@leastlock_owner, UTC_TIMESTAMP(6) + INTERVAL @leastlock_stay_ms * 1000 MICROSECOND)
ON DUPLICATE KEY UPDATE seen_until = VALUES(seen_until);
COMMIT;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SELECT JSON_ARRAYAGG(CONVERT(gone.owner USING utf8mb4)) INTO @leastlock_gone
FROM (
    SELECT owner
    FROM leastlock_outbox_relay
    WHERE seen_until <= UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE
    ORDER BY owner
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
) AS gone;
DELETE relay
FROM JSON_TABLE(@leastlock_gone, '$[*]' COLUMNS (owner VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')) AS gone
STRAIGHT_JOIN leastlock_outbox_relay AS relay FORCE INDEX (PRIMARY) ON relay.owner = gone.owner;
COMMIT;
SELECT CAST(shard AS SIGNED),
       IF(lease_until > UTC_TIMESTAMP(6), owner, NULL),
       CAST(GREATEST((TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) + 999) DIV 1000, 0) AS SIGNED)
FROM leastlock_outbox_shard
UNION ALL
SELECT NULL, owner, NULL
FROM leastlock_outbox_relay
WHERE seen_until > UTC_TIMESTAMP(6)
