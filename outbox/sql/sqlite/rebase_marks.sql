-- Lock: SQLite's one write lock, held by the transaction. The marks are of the other file.
DELETE FROM leastlock_outbox_mark
