-- Refuses whoever changes a row of {table} and brings no generation, an older one, or the number of another owner. A writer brings
-- one by setting {brought} to it, beside {generation}; the trigger takes {brought} back, so that it has to be brought each time. Each
-- statement takes the table's metadata lock, commits by itself, and changes nothing if the trigger is there.
CREATE TRIGGER IF NOT EXISTS leastlock_fence_{table}_update BEFORE UPDATE ON {table} FOR EACH ROW
BEGIN
    IF NEW.{brought} IS NULL OR NEW.{brought} <> NEW.{generation} THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leastlock: a write to {table} brings no generation';
    END IF;
    IF NEW.{generation} < OLD.{generation} {or_other_owner} THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leastlock: a write to {table} brings an outdated generation';
    END IF;
    SET NEW.{brought} = NULL;
END;
CREATE TRIGGER IF NOT EXISTS leastlock_fence_{table}_delete BEFORE DELETE ON {table} FOR EACH ROW
BEGIN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leastlock: DELETE of {table} brings no generation';
END
