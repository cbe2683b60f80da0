-- Begins a protected transaction: READ COMMITTED whatever the server's default is. Takes no lock yet; the guard row's must not
-- outlive a stopped process, so MariaDB ends it after that much idling (whole seconds; MySQL has no such bound), or earlier if
-- the connection says so. The connection's own bound is kept in @leastlock_idle until the transaction has ended, and survives
-- an end that was missed. A setting is computed before the variables of its statement are set. The first ROLLBACK ends what a dropped `begin` of sqlx's may have left open; the savepoint tells at the
-- commit whether the transaction is still this one.
ROLLBACK;
SET @leastlock_open = 1 /*M!100600 ,
    @leastlock_idle = IF(@leastlock_idle IS NULL, @@idle_transaction_timeout, CAST(@leastlock_idle AS SIGNED)),
    idle_transaction_timeout = IF(
        COALESCE(CAST(@leastlock_idle AS SIGNED), @@idle_transaction_timeout) BETWEEN 1 AND {idle_s},
        COALESCE(CAST(@leastlock_idle AS SIGNED), @@idle_transaction_timeout),
        {idle_s}) */;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
SAVEPOINT leastlock_open
