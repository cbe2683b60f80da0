-- Lock: the relay's own row, for one statement. Isolation: READ COMMITTED. A relay that ends is not counted any more; one that is
-- killed is not once its row is over.
DELETE FROM leastlock_outbox_relay
WHERE owner = $1
