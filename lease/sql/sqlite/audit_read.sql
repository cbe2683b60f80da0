-- Takes no lock, and is its own transaction. The newest first, from before ?1.
SELECT audit_id, operation, lock_name, fencing_seq, approver, reason, approved_until, written_at, outcome, raised_to
FROM leastlock_audit
WHERE audit_id < ?1
ORDER BY audit_id DESC
LIMIT ?2
