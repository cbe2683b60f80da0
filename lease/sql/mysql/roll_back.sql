-- Releases all locks, and puts the connection's idle bound back.
ROLLBACK;
SET @leastlock_open = NULL /*M!100600 ,
    idle_transaction_timeout = IF(@leastlock_idle IS NULL, @@idle_transaction_timeout, CAST(@leastlock_idle AS SIGNED)),
    @leastlock_idle = NULL */
