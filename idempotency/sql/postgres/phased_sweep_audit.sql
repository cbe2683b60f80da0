-- Lock: the rows it deletes; those that another sweep has locked are skipped, not waited for. Isolation: READ COMMITTED. A row of the
-- audit is never changed, so nobody else locks one.
DELETE FROM leastlock_idempotency_audit
WHERE id IN (
    SELECT id
    FROM leastlock_idempotency_audit
    WHERE resolved_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY resolved_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
