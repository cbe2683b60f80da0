-- The column form of the fence. Takes the row's exclusive lock, at once and for the rest of the transaction, so that late and new
-- writers of a row follow each other. Right at READ COMMITTED: a row that changed while this waited is compared again as it is then;
-- at stricter levels that is a serialization failure, which is as safe.
UPDATE {table} SET {set}
WHERE {key} = {key_value} AND {guard}
