-- Takes the exclusive lock of one row, which nobody else writes, for this one statement, which is its own transaction. An outcome
-- that is there stays.
UPDATE leastlock_audit
SET outcome = $1::text, raised_to = $2::bigint, settled_at = clock_timestamp()
WHERE operation = $3::bytea AND outcome IS NULL
