-- Lock: none; one plain read of its own snapshot. Which events of one shard there are up to an id; one such part for each shard,
-- joined by UNION ALL. Limited to as many as are known and a page, so that it does not grow with what a late commit has brought;
-- besides those it passes over what was deleted and not yet purged.
SELECT shard, id
FROM leastlock_outbox FORCE INDEX (PRIMARY)
WHERE shard = ? AND id <= ?
ORDER BY id
LIMIT ?
