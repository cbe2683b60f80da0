-- Lock: none; settings of this connection, which are those of the pool's others.
SELECT mode.journal_mode, level.synchronous, wait.timeout, (SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
FROM pragma_journal_mode AS mode
CROSS JOIN pragma_synchronous AS level
CROSS JOIN pragma_busy_timeout AS wait
