-- Lock: SQLite's one write lock, for this one statement, which is its own transaction. A lock whose owner died is taken over
-- when its time is up.
INSERT INTO plain_lock AS held (name, owner, until)
VALUES ($1, $2, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE held.until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
