-- Lock: the rows deleted. The marks are snapshots of the other database.
DELETE FROM leastlock_outbox_mark
