-- Raises the version of a row in every UPDATE that leaves it as it is, whoever wrote the statement.
-- Template: put the names of the table and of its version column in place of {table} and {version}; then it is part of the
-- application's migrations. One statement, so it needs no DELIMITER.
-- Lock: none of its own; it runs BEFORE the write, inside of the row lock of the UPDATE that fired it, and so is right at every
-- isolation level. ON DELETE CASCADE and ON UPDATE CASCADE fire no triggers here.
CREATE TRIGGER leastlock_bump_version_{table} BEFORE UPDATE ON {table}
    FOR EACH ROW SET NEW.`{version}` = IF(NEW.`{version}` = OLD.`{version}`, OLD.`{version}` + 1, NEW.`{version}`);
