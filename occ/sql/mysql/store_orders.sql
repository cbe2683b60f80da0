-- Inserts the order ids with their answers, in the order of the ids, so that two of these never wait for each other in a
-- circle. The JSON is an array of [id, digest, answer]. An id that another transaction has inserted is waited for; if that one
-- commits, the statement fails (1062) and has stored nothing, and the caller must roll back; if that one rolls back while several
-- wait, all but one of these may end in a deadlock (1213), and begin again. Not INSERT IGNORE, which truncates. Right at READ
-- COMMITTED: a duplicate of a primary key locks no gap.
INSERT INTO leastlock_occ_order (order_id, operation_digest, answer)
SELECT given.order_id, given.operation_digest, given.answer
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    order_id         VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]',
    operation_digest BIGINT PATH '$[1]',
    answer           VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]'
)) AS given
