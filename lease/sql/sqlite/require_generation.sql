-- Refuses whoever changes a row of {table} and brings no generation, an older one, or the number of another owner. A writer brings
-- one by setting {brought} to it, beside {generation}; the trigger takes {brought} back, so that it has to be brought each time. That
-- is an UPDATE of its own, since a trigger of SQLite cannot change the row that it judges; it is told by OLD.{brought}. A REPLACE
-- deletes without a trigger, so an INSERT over a row is judged as well. Under the file's one write lock.
BEGIN IMMEDIATE;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_update;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_updated;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_insert;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_inserted;
DROP TRIGGER IF EXISTS leastlock_fence_{table}_delete;
UPDATE {table} SET {brought} = NULL WHERE {brought} IS NOT NULL;
CREATE TRIGGER leastlock_fence_{table}_update BEFORE UPDATE ON {table}
WHEN OLD.{brought} IS NULL
BEGIN
    SELECT RAISE(ABORT, 'leastlock: a write to {table} brings no generation')
    WHERE NEW.{brought} IS NULL OR NEW.{brought} <> NEW.{generation};
    SELECT RAISE(ABORT, 'leastlock: a write to {table} brings an outdated generation')
    WHERE NEW.{generation} < OLD.{generation} {or_other_owner};
END;
CREATE TRIGGER leastlock_fence_{table}_updated AFTER UPDATE ON {table}
WHEN NEW.{brought} IS NOT NULL
BEGIN
    UPDATE {table} SET {brought} = NULL WHERE {key} = NEW.{key};
END;
CREATE TRIGGER leastlock_fence_{table}_insert BEFORE INSERT ON {table}
BEGIN
    SELECT RAISE(ABORT, 'leastlock: an insert over a row of {table} brings no generation, or an outdated one')
    FROM {table} AS OLD
    WHERE OLD.{key} = NEW.{key}
      AND (NEW.{brought} IS NULL OR NEW.{brought} <> NEW.{generation}
           OR NEW.{generation} < OLD.{generation} {or_other_owner});
END;
CREATE TRIGGER leastlock_fence_{table}_inserted AFTER INSERT ON {table}
WHEN NEW.{brought} IS NOT NULL
BEGIN
    UPDATE {table} SET {brought} = NULL WHERE {key} = NEW.{key};
END;
CREATE TRIGGER leastlock_fence_{table}_delete BEFORE DELETE ON {table}
BEGIN
    SELECT RAISE(ABORT, 'leastlock: DELETE of {table} brings no generation');
END;
COMMIT
