-- Raises the version of a row in every UPDATE that leaves it as it is, whoever wrote the statement.
-- Template: put the names of the table and of its version column in place of {table} and {version}; then it is part of the
-- application's migrations. The function serves one name of version column; replacing it by the same text does no harm.
-- Lock: none of its own; it runs BEFORE the write, inside of the row lock of the UPDATE that fired it, and so is right at every
-- isolation level. CREATE TRIGGER itself waits for writers of the table (SHARE ROW EXCLUSIVE).
CREATE OR REPLACE FUNCTION leastlock_bump_{version}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW."{version}" = OLD."{version}" THEN
        NEW."{version}" := OLD."{version}" + 1;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER leastlock_bump_version BEFORE UPDATE ON {table}
    FOR EACH ROW EXECUTE FUNCTION leastlock_bump_{version}();
