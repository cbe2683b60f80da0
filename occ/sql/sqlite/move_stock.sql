-- Inside the write transaction that has read the rows. The JSON is an array of [key, delta].
UPDATE {table}
SET {units} = {units} + change.delta
FROM (
    SELECT json_extract(value, '$[0]') AS stock_key, json_extract(value, '$[1]') AS delta FROM json_each($1)
) AS change
WHERE {table}.{key} = change.stock_key
