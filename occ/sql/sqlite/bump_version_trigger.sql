-- Raises the version of a row in every UPDATE that leaves it as it is, whoever wrote the statement.
-- Template: put the names of the table and of its version column in place of {table} and {version}; then it is part of the
-- application's migrations. It finds the row by its rowid, so the table is not WITHOUT ROWID.
-- Lock: the file's write lock, which the UPDATE that fired it holds. It runs AFTER the write, because an SQLite trigger cannot
-- change NEW; its own UPDATE changes the version, so it does not fire itself where recursive_triggers is on.
CREATE TRIGGER leastlock_bump_version_{table} AFTER UPDATE ON {table}
    FOR EACH ROW WHEN NEW."{version}" = OLD."{version}"
BEGIN
    UPDATE {table} SET "{version}" = OLD."{version}" + 1 WHERE rowid = NEW.rowid;
END;
