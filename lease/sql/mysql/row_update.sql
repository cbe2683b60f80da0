-- The column form of the fence. Takes the row's exclusive lock for the rest of the transaction. Right at every isolation level: an
-- UPDATE sees the row as it is. The condition is judged before the first assignment. Rows that are found count, changed or not.
UPDATE {table} SET {set}
WHERE {key} = {key_value} AND {guard}
