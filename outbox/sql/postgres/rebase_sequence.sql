-- Lock: none beyond those held. Isolation: READ COMMITTED. The log's sequence, the last id that it gave, and the highest that was given in
-- the other database as far as this one knows: nothing else tells new events from published ones.
SELECT ids.sequence,
       coalesce(pg_sequence_last_value(ids.sequence::regclass), 0),
       greatest((SELECT max(seen_id) FROM leastlock_outbox_shard), (SELECT max(id) FROM leastlock_outbox))
FROM (SELECT pg_get_serial_sequence('leastlock_outbox', 'id') AS sequence) AS ids
