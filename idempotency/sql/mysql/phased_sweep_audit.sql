-- Lock: the rows it deletes, in the order of the index, so that two sweeps wait for one another and do not deadlock. Isolation: READ
-- COMMITTED, so that no gap is locked in which a resolution inserts. A row of the audit is never changed, so nobody else locks one.
DELETE FROM leastlock_idempotency_audit
WHERE resolved_at <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
ORDER BY resolved_at
LIMIT ?
