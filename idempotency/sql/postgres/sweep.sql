-- Lock: the rows it deletes; rows that a claimant has locked are skipped, not waited for. Isolation: READ COMMITTED.
DELETE FROM leastlock_idempotency
WHERE (scope, idempotency_key) IN (
    SELECT scope, idempotency_key
    FROM leastlock_idempotency
    WHERE expires_at <= clock_timestamp()
    ORDER BY expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
