-- Locks the rows as lock_stock.sql does, and reads the order ids that are there already, in one round trip. The ids are read
-- as they were before any wait for a lock: one that came in meanwhile makes move_stock_and_store.sql store fewer, and is
-- read by recall.sql at the next attempt. OFFSET 0 keeps the lookup from becoming a scan of the whole table, in a plan that
-- was made when there were few ids.
WITH locked AS MATERIALIZED (
    SELECT stock.stock_key, stock.units
    FROM unnest($1::text[]) AS wanted (stock_key)
    CROSS JOIN LATERAL (
        SELECT {key}::text AS stock_key, {units}::bigint AS units
        FROM {table}
        WHERE {key} = wanted.stock_key
        FOR NO KEY UPDATE
    ) AS stock
)
SELECT stock_key, units, NULL::text FROM locked
UNION ALL
SELECT earlier.order_id, earlier.operation_digest, earlier.answer
FROM unnest($2::text[]) AS wanted (order_id)
CROSS JOIN LATERAL (
    SELECT order_id, operation_digest, answer
    FROM leastlock_occ_order
    WHERE order_id = wanted.order_id
    OFFSET 0
) AS earlier
