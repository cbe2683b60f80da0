-- Fails if the savepoint of begin.sql is gone, and the transaction with it: a deadlock or DDL ended it. Lock: none.
RELEASE SAVEPOINT leastlock_open;
SAVEPOINT leastlock_open
