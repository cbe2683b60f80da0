DELETE FROM leastlock_outbox WHERE shard = $1 AND id = $2
