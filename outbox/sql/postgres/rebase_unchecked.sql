-- Lock: ACCESS EXCLUSIVE on the log where it has rows that its checks refuse, else none beyond those held. Such rows are from before the
-- checks; a row that is changed is checked again, so the checks that refuse some are taken away until rebase_checked.sql, which finds them
-- in a setting of this transaction. A check that was validated refuses none.
DO $$
DECLARE
    one     record;
    refuses boolean;
    kept    text := '';
BEGIN
    FOR one IN
        SELECT conname AS name, pg_get_constraintdef(oid) AS definition, pg_get_expr(conbin, conrelid) AS condition
        FROM pg_constraint
        WHERE conrelid = 'leastlock_outbox'::regclass
          AND contype = 'c'
          AND NOT convalidated
          AND conname IN ('leastlock_outbox_topic', 'leastlock_outbox_partition', 'leastlock_outbox_headers')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM leastlock_outbox WHERE NOT (%s))', one.condition) INTO refuses;
        IF refuses THEN
            EXECUTE format('ALTER TABLE leastlock_outbox DROP CONSTRAINT %I', one.name);
            kept := kept || CASE kept WHEN '' THEN '' ELSE ', ' END || format('ADD CONSTRAINT %I %s', one.name, one.definition);
        END IF;
    END LOOP;
    PERFORM set_config('leastlock.checks', kept, true);
END
$$
