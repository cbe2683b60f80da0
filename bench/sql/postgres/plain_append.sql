-- Lock: none beyond the new row. Right at every isolation level.
INSERT INTO plain_outbox (event_id, topic, record_key, record_value) VALUES ($1, $2, $3, $4)
