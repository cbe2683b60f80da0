-- Lock: the rows changed; the table is locked by rebase_lock.sql. The other rows are published. Their transaction ids lie in this
-- database's future where they are not below its oldest: they would be read again when it comes to them. 3 is the first id that any database
-- gives.
UPDATE leastlock_outbox
SET xid = '3'
WHERE xid <> pg_current_xact_id() AND xid >= pg_snapshot_xmin(pg_current_snapshot())
