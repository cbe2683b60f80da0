-- Lock: the relay's own row, for one statement.
DELETE FROM leastlock_outbox_relay
WHERE owner = ?
