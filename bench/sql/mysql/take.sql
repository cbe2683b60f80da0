-- Lock: the row's, taken by the statement itself. Right at READ COMMITTED and REPEATABLE READ: an UPDATE judges the row as it
-- is when its lock is held, whatever the snapshot shows, so stock never goes below zero.
UPDATE stock SET units = units - ? WHERE code = ? AND units >= ?
