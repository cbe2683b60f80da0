-- Ends what require_generation.sql began. Under the file's one write lock.
BEGIN IMMEDIATE;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_update;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_updated;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_insert;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_inserted;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_delete;
COMMIT
