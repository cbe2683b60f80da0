-- The mutant: what commits late is behind the cursor.
SELECT shard::bigint, id, convert_from(key, 'UTF8'), convert_from(value, 'UTF8'), event_id::text FROM leastlock_outbox WHERE id > $1 ORDER BY id LIMIT 100
