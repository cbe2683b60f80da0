-- Lock: none beyond SQLite's one write lock, which the transaction has. The savepoint lives as long as the transaction does.
SAVEPOINT leastlock_open
