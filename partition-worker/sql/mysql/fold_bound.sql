-- For how many seconds the next statement that says so may take. A variable of the connection that means nothing to anybody
-- else. Lock: none.
SET @leastlock_wait_s = GREATEST(?, 1) / 1000
