-- For how many seconds the statements of a seal wait for a row. A variable of the connection that means nothing to anybody
-- else. Takes no lock.
SET @leastlock_wait = ?
