-- Tells what refused a write, or something newer. Share-locks the row, since a plain read under REPEATABLE READ may not see it as the
-- UPDATE did.
SELECT CAST({generation} AS SIGNED){owner} FROM {table} WHERE {key} = {key_value}
LOCK IN SHARE MODE
