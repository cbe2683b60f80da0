-- Locks the rows that it deletes, in the order of their time, and waits for one that is locked. At READ COMMITTED it locks no
-- others; at REPEATABLE READ also the gaps between them, into which nothing is inserted, because they lie in the past. The age
-- is held to 317 years, beyond which the arithmetic would fail.
DELETE FROM leastlock_occ_order
WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL LEAST(?, 10000000000000) * 1000 MICROSECOND
ORDER BY created_at
LIMIT ?
