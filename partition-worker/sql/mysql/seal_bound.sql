-- Bounds the statements of this transaction that may wait, and tells which session will be waiting. The variable is the
-- connection's and means nothing to anybody else. Lock: none.
SELECT CAST(CONNECTION_ID() AS SIGNED), @leastlock_wait_s := GREATEST(?, 1) / 1000
