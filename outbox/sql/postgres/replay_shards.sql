-- Lock: none; one plain read. Every shard, retired ones included, with its highest id: what is appended from now on, copies included,
-- has a higher one.
SELECT s.shard::bigint, coalesce((SELECT max(id) FROM leastlock_outbox AS o WHERE o.shard = s.shard), 0)
FROM leastlock_outbox_shard AS s
ORDER BY s.shard
