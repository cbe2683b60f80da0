-- Inside the write transaction: an id that is not found cannot come in before it ends.
SELECT order_id, operation_digest, answer
FROM leastlock_occ_order
WHERE order_id IN (SELECT value FROM json_each($1))
