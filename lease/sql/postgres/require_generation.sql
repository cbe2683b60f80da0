-- Refuses whoever changes a row of {table} and brings no generation, an older one, or the number of another owner. A writer brings
-- one by setting {brought} to it, beside {generation}; the trigger takes {brought} back, so that it has to be brought each time. Takes
-- the table's lock (ACCESS EXCLUSIVE) for a moment. The message is one transaction.
BEGIN;
CREATE OR REPLACE FUNCTION leastlock_fence_{table}() RETURNS trigger LANGUAGE plpgsql AS $leastlock$
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'leastlock: % of {table} brings no generation', TG_OP
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.{brought} IS NULL OR NEW.{brought} <> NEW.{generation} THEN
        RAISE EXCEPTION 'leastlock: a write to {table} brings no generation'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.{generation} < OLD.{generation} {or_other_owner} THEN
        RAISE EXCEPTION 'leastlock: a write to {table} brings an outdated generation'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    NEW.{brought} := NULL;
    RETURN NEW;
END
$leastlock$;
DROP TRIGGER IF EXISTS leastlock_fence ON {table};
CREATE TRIGGER leastlock_fence BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION leastlock_fence_{table}();
DROP TRIGGER IF EXISTS leastlock_fence_truncate ON {table};
CREATE TRIGGER leastlock_fence_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION leastlock_fence_{table}();
COMMIT
