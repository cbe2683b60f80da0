-- Fails before the commit if the transaction is aborted: of that alone the COMMIT would make a ROLLBACK, and say so where sqlx does not
-- look. Then begins the next transaction of the same connection, as begin.sql does, in the same message. Releases all locks; the
-- next fence takes the first again.
SELECT 1;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED
