-- The id is any UUID. Key and value are bytes, headers are a JSON list of [name, value].
INSERT INTO leastlock_outbox (event_id, topic, key, value, headers)
VALUES (lower(hex(randomblob(16))), 'stock-moves', CAST('85123A' AS BLOB), CAST('{"units": -3}' AS BLOB),
        '[["source", "shop"]]');
