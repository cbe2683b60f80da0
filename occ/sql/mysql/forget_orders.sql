-- Locks the rows that it deletes, in the order of their time, and waits for one that is locked. At READ COMMITTED it locks no
-- others; at REPEATABLE READ also the gaps between them, into which nothing is inserted, because they lie in the past.
DELETE FROM leastlock_occ_order
WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
ORDER BY created_at
LIMIT ?
