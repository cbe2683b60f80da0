-- Takes no lock. Bounds the waits for one lock, of a row and of a table (its metadata), and how long the server lets a transaction
-- idle before it ends the connection, in seconds, for as long as a combiner keeps the connection: none can be set for one
-- transaction. A bound of the connection's own that is stricter stays; zero is no bound of idling. What was in force is kept for
-- release_connection.sql, what is asked for, for share_wait.sql.
-- MySQL has no bound of idling in a transaction, and does not read the comment.
SET @leastlock_lock_wait = @@SESSION.innodb_lock_wait_timeout,
    @leastlock_table_wait = @@SESSION.lock_wait_timeout,
    @leastlock_lock_bound = {lock_wait_s},
    SESSION innodb_lock_wait_timeout = LEAST(@@SESSION.innodb_lock_wait_timeout, {lock_wait_s}),
    SESSION lock_wait_timeout = LEAST(@@SESSION.lock_wait_timeout, {lock_wait_s})
    /*M!,
    @leastlock_idle = @@SESSION.idle_transaction_timeout,
    SESSION idle_transaction_timeout =
        IF(@@SESSION.idle_transaction_timeout BETWEEN 1 AND {idle_s}, @@SESSION.idle_transaction_timeout, {idle_s}) */
