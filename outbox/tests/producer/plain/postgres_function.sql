SELECT leastlock_outbox_append('stock-moves', '85123A', '{"units": -3}', '[["source", "shop"]]');
