DELETE FROM leastlock_outbox WHERE shard = $1::smallint AND id = $2
