-- Lock: the rows it answers; those that somebody has locked (a repeat locks the row that it met) are skipped, not waited for.
-- Isolation: READ COMMITTED, so that no gap is locked in which an event is marked. The deletion is a statement of its own because
-- neither engine skips locked rows in a DELETE, nor in the subquery of one.
SELECT HEX(consumer), HEX(event_id)
FROM leastlock_inbox
WHERE seen_at <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
ORDER BY seen_at
LIMIT ?
FOR UPDATE SKIP LOCKED
