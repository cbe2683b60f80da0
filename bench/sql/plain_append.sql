-- Lock: SQLite's one write lock, which the caller's transaction holds to its end; elsewhere none beyond the new row. Right
-- at every isolation level.
INSERT INTO plain_outbox (event_id, topic, record_key, record_value) VALUES (?, ?, ?, ?)
