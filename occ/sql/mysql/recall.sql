-- Takes no lock; reads the order ids that are there. Run after the rows are locked, and at READ COMMITTED, where each statement
-- sees what was committed before it, it sees every id that came with one of these rows, and the one that made the attempt
-- before fail. At REPEATABLE READ it would have to be a locking read.
SELECT earlier.order_id, earlier.operation_digest, earlier.answer
FROM JSON_TABLE(?, '$[*]' COLUMNS (order_id VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS wanted
STRAIGHT_JOIN leastlock_occ_order AS earlier FORCE INDEX (PRIMARY) ON earlier.order_id = wanted.order_id
