-- Takes the file's one write lock for this one statement, which is its own transaction. An outcome that is there stays.
UPDATE leastlock_audit
SET outcome = ?1, raised_to = ?2, settled_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE operation = ?3 AND outcome IS NULL
