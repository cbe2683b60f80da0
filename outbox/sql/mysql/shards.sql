-- Lock: none; one plain read. The first shard that events are appended to, and how many these are.
SELECT min(shard), count(*)
FROM leastlock_outbox_shard
