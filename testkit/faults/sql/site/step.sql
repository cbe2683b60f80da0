-- What a clock that is set ahead by an hour does to leases: each has run out by then. Under the exclusive locks of their rows.
UPDATE leastlock_lease SET lease_until = lease_until - interval '1 hour'
