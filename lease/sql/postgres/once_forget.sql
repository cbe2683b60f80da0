-- Takes the exclusive locks of the rows that it deletes, a batch of the oldest, for this one statement, which is its own
-- transaction. Nobody changes a marker that is committed, so it is right at every isolation level.
DELETE FROM leastlock_once
WHERE (job, period) IN (
    SELECT job, period FROM leastlock_once
    WHERE completed_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY completed_at
    LIMIT $2::bigint)
