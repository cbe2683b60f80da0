-- Inside the write transaction. WHERE true keeps the parser from taking ON CONFLICT for the condition of a join.
INSERT INTO shop_order (invoice, units_out, units_back)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
FROM json_each($1)
WHERE true
ON CONFLICT (invoice) DO NOTHING
