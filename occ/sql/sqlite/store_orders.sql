-- Inside the write transaction that has found none of these ids. The JSON is an array of [id, digest, answer].
INSERT INTO leastlock_occ_order (order_id, operation_digest, answer)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each($1)
