-- Takes no lock, and is its own transaction. The newest first, from before $1.
SELECT audit_id::bigint,
       operation,
       lock_name,
       fencing_seq::bigint,
       approver,
       reason,
       (extract(epoch FROM approved_until) * 1000)::bigint,
       (extract(epoch FROM written_at) * 1000)::bigint,
       outcome,
       raised_to::bigint
FROM leastlock_audit
WHERE audit_id < $1::bigint
ORDER BY audit_id DESC
LIMIT $2::bigint
