-- Lock: an advisory lock for each key, to the end of the transaction; waits for the transactions that have one of them, as
-- lock_timeout allows. In the order of the array, which is sorted: the inner query is sorted before the locks are taken.
-- Right at every isolation level. What the lock orders is the ids that the inserts after it draw, and those no snapshot hides.
SELECT pg_advisory_xact_lock(ordered.key)
FROM (
    SELECT key
    FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (key, place)
    ORDER BY place
    OFFSET 0
) AS ordered
