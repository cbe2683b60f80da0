-- Until when somebody waits to hear of a release. Only then does a release notify: a NOTIFY takes a lock at its commit, and
-- whoever has no rival should not pay for it.
ALTER TABLE leastlock_lease ADD COLUMN awaited_until timestamptz
