-- Lock: the new row's only, and a wait for whoever inserts the same id. Right at READ COMMITTED and REPEATABLE READ.
INSERT INTO plain_order (order_id) VALUES (?)
