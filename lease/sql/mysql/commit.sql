-- Fails before the commit if the transaction is not the one that was begun: a deadlock has ended it, say, and the error was
-- ignored. Then puts the connection's idle bound back, in the same message, since it goes back to its pool at once.
-- Releases all locks.
RELEASE SAVEPOINT leastlock_open;
COMMIT;
SET @leastlock_open = NULL /*M!100600 ,
    idle_transaction_timeout = IF(@leastlock_idle IS NULL, @@idle_transaction_timeout, CAST(@leastlock_idle AS SIGNED)),
    @leastlock_idle = NULL */
