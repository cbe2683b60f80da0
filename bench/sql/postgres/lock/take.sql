-- Lock: the row, exclusively, for this one statement, which is its own transaction. Isolation: READ COMMITTED, so that who has
-- come first is seen after the wait. A lock whose owner died is taken over when its time is up.
INSERT INTO plain_lock AS held (name, owner, until)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE held.until <= clock_timestamp()
