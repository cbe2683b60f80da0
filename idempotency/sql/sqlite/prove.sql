-- Fails if the savepoint is gone, and the transaction with it. Lock: as mark.sql; it is set again for the next time.
RELEASE leastlock_open;
SAVEPOINT leastlock_open
