-- Lock: none; one plain read. There is one reader, so none need be skipped.
SELECT id, event_id, topic, record_key, record_value FROM plain_outbox ORDER BY id LIMIT ?
