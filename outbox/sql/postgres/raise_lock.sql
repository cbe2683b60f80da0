-- Lock: ACCESS EXCLUSIVE on the log: it waits for every transaction that has appended, and none appends until this one has ended.
LOCK TABLE leastlock_outbox IN ACCESS EXCLUSIVE MODE
