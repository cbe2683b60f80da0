-- Lock: SQLite's one write lock, which the transaction has from its BEGIN IMMEDIATE.
-- The lease is over at once, so the next claimant takes the key over; the generation refuses the owner before.
UPDATE leastlock_idempotency
SET step_data = $1, recovery_point = $2, state = 'running', generation = generation + 1, owner_token = NULL,
    hold_reason = NULL, unknown_since = NULL, asks = 0, ask_after = NULL,
    lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE scope = $3 AND idempotency_key = $4 AND generation = $5 AND state IN ('running', 'held')
