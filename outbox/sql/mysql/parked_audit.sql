-- Lock: none beyond the new row; in the transaction of the action, so that neither is there without the other.
INSERT INTO leastlock_outbox_audit (actor, action, reason, topic, `key`, event_id, queues)
VALUES (?, ?, ?, ?, ?, ?, ?)
