-- Topic, key, value, headers, partition, event id, strict mode.
CALL leastlock_outbox_append('stock-moves', '85123A', '{"units": -3}', '[["source", "shop"]]', NULL, NULL, FALSE);
