-- The mutant: noted as sent before it is.
DELETE FROM leastlock_outbox WHERE id IN (SELECT id FROM leastlock_outbox ORDER BY id LIMIT 20)
RETURNING shard::bigint, id, convert_from(key, 'UTF8'), convert_from(value, 'UTF8'), event_id::text
