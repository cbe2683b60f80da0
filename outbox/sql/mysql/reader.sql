-- Lock: one of a name, as long as the session lasts: a note is taken only while it is held, which says that the server is still the one that
-- was read. For the whole session that reads: each read has to have a snapshot of its own, whatever the server's default is.
SET autocommit = 1, @leastlock_reads = GET_LOCK(CONCAT('leastlock_outbox_', ?), 0)
