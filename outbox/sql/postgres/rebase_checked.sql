-- Lock: none beyond those held. Puts back what rebase_unchecked.sql took away, as the catalogue had it; rows are not read (NOT VALID).
DO $$
BEGIN
    IF current_setting('leastlock.checks') <> '' THEN
        EXECUTE 'ALTER TABLE leastlock_outbox ' || current_setting('leastlock.checks');
    END IF;
END
$$
