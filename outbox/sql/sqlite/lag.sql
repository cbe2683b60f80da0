-- Lock: none; one plain read. Ids have gaps only where transactions were rolled back or events deleted, and those beyond the cursor have
-- neither; so their number is known from the ends. A writer's rows cannot be seen before its commit, nor can the writer.
SELECT NULL,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
           - (SELECT created_at FROM leastlock_outbox WHERE id > s.last_id ORDER BY id LIMIT 1),
       coalesce((SELECT max(id) FROM leastlock_outbox) - (SELECT min(id) FROM leastlock_outbox WHERE id > s.last_id) + 1, 0),
       1,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - (SELECT min(parked_at) FROM leastlock_outbox_parked),
       (SELECT count(*) FROM leastlock_outbox_parked),
       coalesce((SELECT max(id) FROM leastlock_outbox), s.last_id)
FROM leastlock_outbox_shard AS s
