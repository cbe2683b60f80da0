-- Takes the exclusive lock of one row, which nobody else writes, for this one statement, which is its own transaction. An outcome
-- that is there stays.
UPDATE leastlock_audit
SET outcome = ?, raised_to = ?, settled_at = UTC_TIMESTAMP(6)
WHERE operation = ? AND outcome IS NULL
