-- Fails before the commit if the transaction is not the one that was begun any more, as commit.sql does. Then begins the next one of the
-- same connection, in the same message; the connection keeps the idle bound that begin.sql has set. Releases all locks; the
-- next fence takes the first again.
RELEASE SAVEPOINT leastlock_open;
COMMIT;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SAVEPOINT leastlock_open
