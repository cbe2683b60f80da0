-- Lock: the rows of the slots named, exclusively, to the end of the transaction; waits for the transactions that have one of them, as
-- innodb_lock_wait_timeout allows. In the order of the list, which is sorted: the join goes from the list to the rows, one by
-- one, by their primary key, so that no other row is locked and no gap. Right at every isolation level.
SELECT STRAIGHT_JOIN COUNT(*)
FROM JSON_TABLE(?, '$[*]' COLUMNS (slot INT PATH '$')) AS wanted
JOIN leastlock_outbox_key_slot AS s FORCE INDEX (PRIMARY) ON s.slot = wanted.slot
FOR UPDATE
