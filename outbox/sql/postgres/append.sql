-- Lock: none beyond the new row. Right at every isolation level: xid is the caller's own transaction, so the event becomes
-- visible exactly when the caller's other writes do.
INSERT INTO leastlock_outbox (shard, event_id, topic, key, value, headers, partition)
VALUES ($1::bigint::smallint, $2::text::uuid, $3, $4, $5, $6, $7::bigint::integer)
