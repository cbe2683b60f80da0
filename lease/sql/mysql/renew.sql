-- Takes the row's exclusive lock for this one statement, which is its own transaction. Right at every isolation level: an
-- UPDATE sees the row as it is, so whoever stole it is seen after a wait. Never an upsert, and only while the lease stands. A
-- lease that ran out during a wait for the row may be extended: nobody has taken it, and the holder counts from the sending.
UPDATE leastlock_lease
SET lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND,
    updated_at = UTC_TIMESTAMP(6)
WHERE lock_name = ? AND owner_token = ? AND fencing_seq = ? AND lease_until > UTC_TIMESTAMP(6)
