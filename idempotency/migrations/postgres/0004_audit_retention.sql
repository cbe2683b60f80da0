-- A sweep of the audit finds its oldest rows here, however many there are to stay.
CREATE INDEX leastlock_idempotency_audit_resolved_at ON leastlock_idempotency_audit (resolved_at)
