-- Ends what require_generation.sql began. Takes the table's lock (ACCESS EXCLUSIVE) for a moment.
BEGIN;
DROP TRIGGER IF EXISTS leastlock_fence ON {table};
DROP TRIGGER IF EXISTS leastlock_fence_truncate ON {table};
DROP FUNCTION IF EXISTS leastlock_fence_{table}();
COMMIT
