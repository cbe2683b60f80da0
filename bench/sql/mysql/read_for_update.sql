-- Lock: the row's, until the transaction ends. Right at READ COMMITTED and REPEATABLE READ: a locking read shows the row as
-- it is, whatever the snapshot shows.
SELECT units FROM stock WHERE code = ? FOR UPDATE
