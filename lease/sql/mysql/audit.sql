-- In the transaction of the release that it tells of, or, without an outcome, in its own before one at another store. It locks
-- nothing but its own new row; right at every isolation level. SET is evaluated from left to right, so the outcome is there when the
-- last column asks for it.
INSERT INTO leastlock_audit
SET operation = ?,
    action = 'force-release',
    lock_name = ?,
    fencing_seq = ?,
    approver = ?,
    reason = ?,
    approved_until = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? * 1000 MICROSECOND,
    written_at = UTC_TIMESTAMP(6),
    outcome = ?,
    raised_to = ?,
    settled_at = IF(outcome IS NULL, NULL, UTC_TIMESTAMP(6))
