-- Takes no lock; reads the order ids that are there. Run after the rows are locked, at READ COMMITTED, it sees every id that
-- came with one of these rows. OFFSET 0 as in lock_stock_and_recall.sql.
SELECT earlier.order_id, earlier.operation_digest, earlier.answer
FROM unnest($1::text[]) AS wanted (order_id)
CROSS JOIN LATERAL (
    SELECT order_id, operation_digest, answer
    FROM leastlock_occ_order
    WHERE order_id = wanted.order_id
    OFFSET 0
) AS earlier
