-- Lock: the row's, taken by the statement itself (SQLite: the one write lock). Isolation: READ COMMITTED: after a wait the
-- condition is judged on the row as it then is, so stock never goes below zero.
UPDATE stock SET units = units - $1 WHERE code = $2 AND units >= $1
