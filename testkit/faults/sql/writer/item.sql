-- One of a batch, in its transaction; its row is nobody else's, so any isolation level is right.
INSERT INTO item (write_id, number) VALUES ($1, $2)
