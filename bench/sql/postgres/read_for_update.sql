-- Lock: the row's, until the transaction ends. Right at READ COMMITTED: after a wait the row is read as it then is.
SELECT units FROM stock WHERE code = $1 FOR UPDATE
