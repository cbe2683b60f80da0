-- Lock: none; one plain read under READ COMMITTED. There is one reader, so none need be skipped.
SELECT id, event_id, topic, key, value FROM plain_outbox ORDER BY id LIMIT $1
