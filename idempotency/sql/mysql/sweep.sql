-- Lock: the rows it answers; those that a claimant has locked are skipped, not waited for. Isolation: READ COMMITTED, so that
-- no gap is locked in which a claim inserts. The deletion is a statement of its own because neither engine skips locked rows
-- in a DELETE, nor in the subquery of one.
SELECT scope, idempotency_key
FROM leastlock_idempotency
WHERE expires_at <= UTC_TIMESTAMP(6)
ORDER BY expires_at
LIMIT ?
FOR UPDATE SKIP LOCKED
