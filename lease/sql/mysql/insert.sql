-- The first lease of a lock. Takes the new row's exclusive lock for this one statement, which is its own transaction; 1062 is a
-- row that came first. Never INSERT IGNORE. Right at every isolation level.
INSERT INTO leastlock_lease (lock_name, owner_token, fencing_seq, lease_until, updated_at, acquired_at, job_id)
VALUES (?, ?, ? + 1, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), ?)
