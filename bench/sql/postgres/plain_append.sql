-- Lock: none beyond the new row. Right at every isolation level.
INSERT INTO plain_outbox (event_id, topic, key, value) VALUES ($1, $2, $3, $4)
