-- Takes no lock, and is its own transaction. The newest first, from before an id.
SELECT audit_id,
       operation,
       lock_name,
       fencing_seq,
       approver,
       reason,
       TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', approved_until) DIV 1000,
       TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', written_at) DIV 1000,
       outcome,
       raised_to
FROM leastlock_audit
WHERE audit_id < ?
ORDER BY audit_id DESC
LIMIT ?
