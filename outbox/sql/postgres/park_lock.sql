-- Lock: ACCESS SHARE on the log, before the shards' rows: raise.sql takes the two in this order, and the other way round they could
-- deadlock.
LOCK TABLE leastlock_outbox IN ACCESS SHARE MODE
