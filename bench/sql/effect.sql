-- Lock: the new row's only (SQLite: the one write lock). Right at every isolation level: nothing is read.
INSERT INTO effect (request_key, item, units) VALUES ($1, $2, $3) RETURNING id
