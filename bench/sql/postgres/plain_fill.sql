-- Lock: none beyond the new rows. Right at every isolation level. Sorted by their places, so that ids keep the order of the
-- arrays.
INSERT INTO plain_outbox (event_id, topic, record_key, record_value)
SELECT event_id, $1, key, value
FROM unnest($2::uuid[], $3::bytea[], $4::bytea[]) WITH ORDINALITY AS event (event_id, key, value, place)
ORDER BY place
