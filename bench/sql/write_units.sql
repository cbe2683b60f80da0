-- Lock: the row's. Right at every isolation level if this transaction has locked the row before it read the units; without
-- that it overwrites what others have taken.
UPDATE stock SET units = $1 WHERE code = $2
