-- Lock: the queue's row, which is held already (parked_lock.sql). Not if an operator has asked for more meanwhile.
UPDATE leastlock_outbox_parked_queue
SET state = 'parked', asked_at = NULL
WHERE queue = ? AND state = 'retrying'
