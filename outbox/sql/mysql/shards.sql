-- Lock: none; one plain read.
SELECT count(*) FROM leastlock_outbox_shard
