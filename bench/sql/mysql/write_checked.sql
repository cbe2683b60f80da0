-- Lock: the row's, taken by the statement itself. Right at READ COMMITTED and REPEATABLE READ: an UPDATE judges the version as
-- it is when the row's lock is held, so a value that was read before is written only if nobody else came between.
UPDATE stock SET units = ?, version = version + 1 WHERE code = ? AND version = ?
