-- Lock: the row's, taken by the statement itself. Right at READ COMMITTED: after a wait the version is judged as it then is,
-- so a value that was read before is written only if nobody else came between.
UPDATE stock SET units = $1, version = version + 1 WHERE code = $2 AND version = $3
