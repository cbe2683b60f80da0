-- Lock: none but the new row's; in the transaction of the resolution, so that neither is there without the other.
INSERT INTO leastlock_idempotency_audit
    (scope, idempotency_key, generation, step, outcome, resolved_by, reason, resolved_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
