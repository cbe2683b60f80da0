-- Takes no lock. Other bounds of waits for as long as the connection is kept or until the next ones, never more than
-- bound_connection.sql has set. MariaDB takes zero for no wait at all; MySQL for a second.
SET SESSION innodb_lock_wait_timeout = LEAST(@leastlock_lock_wait, @leastlock_lock_bound, {share_s}),
    SESSION lock_wait_timeout = LEAST(@leastlock_table_wait, @leastlock_lock_bound, {share_s})
