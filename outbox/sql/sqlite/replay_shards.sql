-- Lock: none; one plain read. The shard with its highest id: what is appended from now on, copies included, has a higher one.
SELECT s.shard, coalesce((SELECT max(id) FROM leastlock_outbox), 0)
FROM leastlock_outbox_shard AS s
