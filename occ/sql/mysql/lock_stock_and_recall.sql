-- Locks the rows as lock_stock.sql does, and reads the order ids that are there already, in one round trip. An id may have
-- come in while a lock was waited for and not be seen: store_orders.sql fails for it then, and recall.sql reads it at the
-- next attempt. The ids are read without a lock.
(
    SELECT stock.{key}, CAST(stock.{units} AS SIGNED), NULL
    FROM JSON_TABLE(?, '$[*]' COLUMNS (stock_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS wanted
    STRAIGHT_JOIN {table} AS stock FORCE INDEX ({index}) ON stock.{key} = wanted.stock_key
    FOR UPDATE
)
UNION ALL
(
    SELECT earlier.order_id, earlier.operation_digest, earlier.answer
    FROM JSON_TABLE(?, '$[*]' COLUMNS (order_id VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS wanted
    STRAIGHT_JOIN leastlock_occ_order AS earlier FORCE INDEX (PRIMARY) ON earlier.order_id = wanted.order_id
)
