-- For how many seconds the claim's statements wait, in a caller's transaction. A variable of the connection that means
-- nothing to anybody else. Takes no lock.
SET @leastlock_wait = ?
