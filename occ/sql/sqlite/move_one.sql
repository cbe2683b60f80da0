-- A movement of one row that came alone, in one statement and no transaction around it. Takes the one write lock; the
-- condition is judged under it. $2 is negative for what is taken.
UPDATE {table} SET {units} = {units} + $2 WHERE {key} = $1 AND ($2 >= 0 OR {units} + $2 >= $3)
