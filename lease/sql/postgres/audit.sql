-- In the transaction of the release that it tells of, or, without an outcome, in its own before one at another store. It locks
-- nothing but its own new row; right at every isolation level.
INSERT INTO leastlock_audit
    (operation, action, lock_name, fencing_seq, approver, reason, approved_until, written_at, outcome, raised_to, settled_at)
VALUES
    ($1::bytea, 'force-release', $2::text, $3::bigint, $4::text, $5::text,
     timestamptz 'epoch' + $6::bigint * interval '1 millisecond', clock_timestamp(), $7::text, $8::bigint,
     CASE WHEN $7::text IS NOT NULL THEN clock_timestamp() END)
