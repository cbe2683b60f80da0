-- Lock: SQLite's one write lock, which the caller's transaction holds to its end, so nobody else marks anything meanwhile. No row
-- was inserted: one is there, so it is a repeat.
INSERT INTO leastlock_inbox (consumer, event_id)
VALUES ($1, $2)
ON CONFLICT DO NOTHING
