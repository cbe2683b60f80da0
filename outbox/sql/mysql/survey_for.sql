-- Lock: none. What survey.sql works with: a message of several statements takes no parameters.
SET @leastlock_owner = ?, @leastlock_stay_ms = ?
