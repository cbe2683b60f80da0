-- The transaction began with BEGIN IMMEDIATE and has the one write lock: nothing that is read here can change before it ends.
SELECT {key}, {units} FROM {table} WHERE {key} IN (SELECT value FROM json_each($1))
