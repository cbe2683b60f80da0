-- The locks as they were then: in one statement, under the exclusive locks of their rows.
UPDATE leastlock_lease AS lease
SET owner_token = old.owner_token, fencing_seq = old.fencing_seq, lease_until = old.lease_until
FROM leases_then AS old WHERE old.lock_name = lease.lock_name
