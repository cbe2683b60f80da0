-- Lock: SHARE ROW EXCLUSIVE on the log: it waits for every transaction that has appended, and none appends until this one has ended. The
-- rows must stand still while their transaction ids are replaced.
LOCK TABLE leastlock_outbox IN SHARE ROW EXCLUSIVE MODE
