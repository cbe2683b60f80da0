-- Ends what require_generation.sql began. Each statement takes the table's metadata lock, and commits by itself.
DROP TRIGGER IF EXISTS leastlock_fence_{table}_update;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_delete
