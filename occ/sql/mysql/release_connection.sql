-- Takes no lock. Gives the connection back the bounds that it had before bound_connection.sql.
SET SESSION innodb_lock_wait_timeout = @leastlock_lock_wait,
    SESSION lock_wait_timeout = @leastlock_table_wait
    /*M!, SESSION idle_transaction_timeout = @leastlock_idle */
