-- Lock: the record's row, which phased_lock.sql has locked in the same transaction; right at every isolation level.
-- The lease is over at once, so the next claimant takes the key over; the generation refuses the owner before.
UPDATE leastlock_idempotency
SET step_data = ?, recovery_point = ?, state = 'running', generation = generation + 1, owner_token = NULL,
    hold_reason = NULL, unknown_since = NULL, asks = 0, ask_after = NULL, lease_until = UTC_TIMESTAMP(6)
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND state IN ('running', 'held')
