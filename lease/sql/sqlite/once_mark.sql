-- Under the file's one write lock (BEGIN IMMEDIATE): whoever has marked the period has committed or is gone. SQLite has no bound
-- for idling, so ?4 is not used: a writer that is stopped blocks the file.
INSERT INTO leastlock_once (job, period, owner_token, began_at, completed_at)
VALUES (?1, ?2, ?3, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
        CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT (job, period) DO NOTHING
RETURNING 1
