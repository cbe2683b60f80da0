-- Lock: none but the new row's; in the transaction of the resolution, so that neither is there without the other.
INSERT INTO leastlock_idempotency_audit
    (scope, idempotency_key, generation, step, outcome, resolved_by, reason, resolved_at)
VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))
