-- The mutant: two relays take turns within a key.
SELECT shard::bigint, id, convert_from(key, 'UTF8'), convert_from(value, 'UTF8'), event_id::text FROM leastlock_outbox ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED
