-- The older copy. Nobody else uses the table, so no lock that matters.
CREATE TABLE leases_then AS SELECT * FROM leastlock_lease
