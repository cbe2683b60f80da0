-- The schema that a new database has, with the rights that are on it there. Takes locks on nothing that another session sees: the
-- database is of this test alone. Right at each isolation level.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 150000 THEN
        CREATE SCHEMA public AUTHORIZATION pg_database_owner;
        GRANT USAGE ON SCHEMA public TO PUBLIC;
    ELSE
        CREATE SCHEMA public;
        GRANT ALL ON SCHEMA public TO PUBLIC;
    END IF;
END
$$
